package offline

import "strings"

// preparedNote is the last paragraph of each prepared answer.
const preparedNote = "\n\n*(A prepared answer to a suggested message. A language model answers other messages like it.)*"

// prepared returns the prepared answer to the message, or "" if there is none.
func (p prompt) prepared() string {
	if text := answers[oneLine(p.message)]; text != "" {
		return strings.TrimSpace(text) + preparedNote
	}
	return ""
}

// oneLine returns a text with a single space between its words.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// answers contains the prepared answers to messages that templates without tools suggest.
var answers = map[string]string{
	`{"alert":"disk_usage","host":"db-1","value":"97%","for":"15m"}`: `
**severity:** critical

**summary:** The disk of db-1 has been 97 % full for 15 minutes and may soon stop the database.

**cause:** unknown

**evidence:** alert = disk_usage, host = db-1, value = 97 %, for = 15 m

**next step:** The engineer on call frees space on db-1 or enlarges its disk, and then looks for what grew.

**missing:** how fast usage rises, and what the disk holds
`,
	"Payment of 4,200 EUR failed for the third time, customer since 2019, reason: card expired.": `
**severity:** normal

**summary:** A payment of 4,200 EUR by a customer since 2019 failed three times because the card has expired.

**cause:** The stored card is out of date.

**evidence:** amount = 4,200 EUR, third failure, reason = card expired

**next step:** Accounts receivable asks the customer for a new card before the next attempt.

**missing:** when the next attempt is due, and whether service is at risk
`,
	`New issue: "Login button does nothing on Safari 17", 12 reactions, no label.`: `
**severity:** high

**summary:** The login button does not work on Safari 17, so people with that browser cannot sign in.

**cause:** unknown; probably a script that fails on Safari 17

**evidence:** the title of the issue, 12 reactions, no label

**next step:** A front-end developer reproduces it on Safari 17 and labels the issue.

**missing:** whether other browsers are affected, and since which release
`,
	"Nightly backup finished in 4 s; usually it takes 40 min.": `
**severity:** high

**summary:** The nightly backup took 4 seconds instead of 40 minutes and is probably empty.

**cause:** unknown; a backup that ends so early has usually read nothing

**evidence:** duration = 4 s, usual duration = 40 min, reported as finished

**next step:** The database administrator compares the size of this backup with yesterday's and runs it again.

**missing:** the size of the backup and its log
`,
	`Make this shorter: "I am writing in order to inform you that the meeting has been moved to a later point in time."`: `
It is polite and complete, but the news comes last.

| before | after | why |
|---|---|---|
| I am writing in order to inform you that | (nothing) | the message itself informs |
| has been moved to a later point in time | is later | "later" says it in one word |

**Revised:** The meeting has been moved to [new time].
`,
	"Help me to decline an invitation politely.": `
Three openings that differ in approach:

1. **Warm and short:** Thank you for thinking of me. I can't come this time, but I hope it is a lovely evening.
2. **With a reason:** Thank you for the invitation. I promised that day to my family, so I have to decline.
3. **With another offer:** I can't make it on [day], and I would love to see you. Are you free for coffee the week after?

Which one sounds most like you? Who will read it?
`,
	"How do I begin an application for a job I am not quite qualified for?": `
Begin with what you have done that the job needs, not with what is missing:

1. **With a result:** Last year I cut the time for our monthly report from four days to one. I would like to do the same for [team].
2. **With what draws you:** I have used [product] every day for three years, and I know which two things I would improve first.
3. **With a plan for the gap:** Your advertisement asks for [skill]. I am taking [course] and have already built [example] with it.

Which of your results comes closest to this job?
`,
	"Turn my notes into a status report of five sentences.": `
Send me the notes, and I use this form, one sentence each:

1. **Result:** what is finished since the last report.
2. **Now:** what is in progress, and who does it.
3. **Risk:** what could delay it, and by how much.
4. **Decision:** what you need, from whom, by when.
5. **Next:** what the reader will see by the next report.
`,
}

// plotted is the last part of a program that draws with plt.
const plotted = `
    plt.savefig("` + plotFile + `")
`

// importPlot begins the part of a program that draws.
const importPlot = `
try:
    import matplotlib.pyplot as plt
except ImportError:
    print("There is no plot: matplotlib is not installed.")
else:`

// programs contains the prepared programs for messages that templates with codeExecution suggest.
var programs = map[string]string{
	"I repay a loan of 18,000 at 4.2 % over 48 months. What is the monthly payment, and what does the loan cost in total?": `loan, rate, months = 18_000, 0.042 / 12, 48
payment = loan * rate / (1 - (1 + rate) ** -months)
print(f"Monthly rate:  {payment:10,.2f}")
print(f"Paid in total: {payment * months:10,.2f}")
print(f"Interest:      {payment * months - loan:10,.2f}")

balances = [loan]
for month in range(months):
    balances.append(balances[-1] * (1 + rate) - payment)
print(f"Check: after {months} payments {abs(balances[-1]):.2f} is left")
` + importPlot + `
    plt.plot(balances)
    plt.title("What is left of the loan")
    plt.xlabel("month")` + plotted,
	"How many working days are there between 3 March and 19 September 2025?": `from collections import Counter
from datetime import date, timedelta

first, last = date(2025, 3, 3), date(2025, 9, 19)
days = [first + timedelta(n) for n in range((last - first).days + 1)]
working = [day for day in days if day.weekday() < 5]
print(len(working), "working days from", first, "to", last, "(both included, public holidays not subtracted)")

months = Counter(day.strftime("%B") for day in working)
for month, count in months.items():
    print(f"{month:10} {count:3}")
` + importPlot + `
    plt.bar(list(months), list(months.values()))
    plt.title("Working days")` + plotted,
	"Simulate 100,000 throws of two dice. How often is the sum at least 10?": `import random
from collections import Counter

random.seed(1)
sums = Counter(random.randint(1, 6) + random.randint(1, 6) for _ in range(100_000))
hits = sum(count for total, count in sums.items() if total >= 10)
print(f"{hits:,} of 100,000 throws, {hits / 1000:.2f} %")
print(f"Expected: 6 of 36, {600 / 36:.2f} %")
` + importPlot + `
    plt.bar(sorted(sums), [sums[total] for total in sorted(sums)])
    plt.title("Sums of two dice")` + plotted,
}
