// Package abuse attacks a whole Parley and measures a victim beside each attack. `make abuse` runs it for minutes; `go test -short`
// runs a form of it that takes a minute.
//
//	victim ───▶ 127.0.0.1 ──┐
//	                        ├─▶ parley up: ingress, workers, private PostgreSQL, embedded NATS
//	attackers ▶ 127.0.0.x ──┘
//
// TestAbuse starts one `parley up` with default settings, an offline model and an open sign-up, and attacks it in one way after the
// other. The attackers and the victims are accounts that anybody can make, each with an organization. Attackers use only what the API
// offers to such accounts, and addresses of their own.
//
// The judge compares the victim's latency alone and beside the attack, for each kind of request apart. Rounds alone and rounds beside
// the attack alternate, so that a slow moment of the machine reaches both. A test fails if
//
//   - a request of the victim is refused or gets a wrong answer, alone or beside the attack;
//   - the median or the 99th percentile beside the attack exceeds both twice its value alone and its value alone plus a floor;
//   - the attack sent less than it had to, or the service refused it in another way than documented.
//
// The floors, 25 ms for the median and 75 ms for the percentile, are the time by which a scheduler delays a request on two cores that
// attackers, victim, service and database share. They keep 3 ms beside 1 ms from being a failure. What is above the bound is measured
// again, because the percentile of a short form is that of its slowest requests, and fails the test after three measurements in a row
// on a quiet machine. A measurement during which other programs use more than a quarter of the machine can only show that the bound
// holds. If there are not three quiet ones among four, the test says NOT TESTED. A refusal counts the first time, on any machine.
//
// CI runs the short form in a stage of its own, beside nothing else.
// Attackers are economical: what they cost in processor time is logged beside the service's.
//
// PARLEY_ABUSE_BINARY names another `parley` to attack, such as that of an older release. Settings of the environment hold for the
// service: `CONNECTIONS_PER_ADDRESS=0 go test -short -run Abuse/churn` shows what that bound is for.
package abuse
