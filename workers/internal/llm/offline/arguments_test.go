package offline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/workers/internal/llm"
)

// shop returns tools for which the model must not invent arguments.
func shop() []llm.ToolSpec {
	tool := func(name, properties string, required ...string) llm.ToolSpec {
		return llm.ToolSpec{
			Name: name, Description: "Does " + name + ". And more [1].",
			Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":["` + strings.Join(required, `","`) + `"]}`),
		}
	}
	const id, amount = `"id":{"type":"string"}`, `"amount":{"type":"number"}`
	return []llm.ToolSpec{
		tool("convert", amount+`,"from":{"enum":["EUR","USD"]},"to":{"enum":["EUR","USD"]}`, "amount", "from", "to"),
		tool("deleteOrder", id, "id"),
		tool("getOrder", id+`,"v":{"type":"string"},"note":{"type":"string"}`, "id"),
		tool("getWeather", `"city":{"type":"string"},"units":{"enum":["metric","imperial"]}`, "city"),
		tool("hello_greet", `"name":{"type":"string"}`, "name"),
		tool("refund", id+`,`+amount, "id", "amount"),
		tool("setFlag", `"orderId":{"type":"integer"},"open":{"type":"boolean"}`, "orderId", "open"),
		tool("tickets_create_ticket", `"title":{"type":"string"},"priority":{"enum":["low","high"]}`, "title"),
		tool("webSearch", `"query":{"type":"string"}`, "query"),
	}
}

// asked returns the calls that the model requests for a message. If the model requests no call,
// asked returns the model's answer.
func asked(t *testing.T, tools []llm.ToolSpec, message string) string {
	t.Helper()
	res := ask(t, llm.Request{Tools: tools}, message)
	var calls []string
	for _, c := range res.ToolCalls {
		calls = append(calls, c.Name+" "+string(c.Arguments))
	}
	return strings.Join(calls, "; ") + res.Text
}

func TestArgumentsAreGivenOrMissing(t *testing.T) {
	t.Parallel()
	const noID = `deleteOrder needs "id": write it as id: value.`
	const noRefund = `refund needs "id" and "amount": write them as id: value.`
	const noTitle = `tickets_create_ticket needs "title": write it as title: value.`
	const noOrder = `getOrder needs "id": write it as id: value.`
	for message, want := range map[string]string{
		"Delete order 12 because it is wrong":                  noID,
		"Delete order because the id is wrong":                 noID,
		"Delete the order please":                              noID,
		"Delete order id":                                      noID,
		"deleteOrder id: 12 because it is wrong":               `deleteOrder {"id":"12"}`,
		"deleteOrder id = \"a b\"":                             `deleteOrder {"id":"a b"}`,
		`deleteOrder {"id":"x"}`:                               `deleteOrder {"id":"x"}`,
		"deleteOrder with id":                                  noID,
		"deleteOrder id:":                                      noID,
		"Refund order 17, amount 5":                            noRefund,
		"Refund order 17":                                      noRefund,
		"refund id: #17, amount: 1,000.50":                     `refund {"amount":1000.50,"id":"17"}`,
		"refund id: 17, amount: 1,5":                           `refund needs "amount": write it as amount: value.`,
		"refund id: 17, amount: all":                           `refund needs "amount": write it as amount: value.`,
		"getOrder id: 17 and deleteOrder id: 18":               `deleteOrder {"id":"18"}; getOrder {"id":"17"}`,
		"getOrder id: 17 and deleteOrder":                      `getOrder {"id":"17"}`,
		"deleteOrder id: 12 or id: 13":                         noID,
		"convert amount: 5, from: EUR, to: usd":                `convert {"amount":5,"from":"EUR","to":"USD"}`,
		"convert amount: 5, from: GBP, to: usd":                `convert needs "from": write it as from: value.`,
		"setFlag of order id = 7, open: no":                    `setFlag {"open":false,"orderId":7}`,
		"setFlag of order_id = 7.5, open: yes":                 `setFlag needs "orderId": write it as orderId: value.`,
		"Use getOrder":                                         noOrder,
		"Use getOrder and refund":                              noOrder + "\n" + noRefund,
		"Get order 17 and delete order 18":                     `deleteOrder needs "id": write it as id: value.` + "\n" + noOrder,
		"Use tickets_create_ticket":                            noTitle,
		"Use tickets_create_ticket for room 5":                 noTitle,
		"Use tickets_create_ticket with title please":          noTitle,
		`tickets_create_ticket "Door is stuck", high`:          noTitle,
		"tickets_create_ticket, title: Name with id 3":         `tickets_create_ticket {"title":"Name with id 3"}`,
		"Use hello_greet with name: Ada":                       `hello_greet {"name":"Ada"}`,
		"Use getWeather, city: Oslo, units: metric":            `getWeather {"city":"Oslo","units":"metric"}`,
		"getWeather city: New York":                            `getWeather {"city":"New York"}`,
		"What does inject3 say about getOrder? id: 3, note: x": `getOrder {"id":"3","note":"x"}`,
		"What does getOrder do?":                               `webSearch {"query":"What does getOrder do?"}`,
	} {
		if got := asked(t, shop(), message); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", message, got, want)
		}
	}
}

func TestNestedArgumentsAreAskedForAsJSON(t *testing.T) {
	t.Parallel()
	tools := []llm.ToolSpec{{Name: "book", Schema: json.RawMessage(`{"properties":{"a":{"type":"integer"},"b":{"type":"integer"},` +
		`"c":{"type":"object","required":["d"]}},"required":["a","b","c"]}`)}}
	if got := asked(t, tools, "book it"); got != `book needs "a", "b" and "c": write them as a JSON object, {"c": {…}}.` {
		t.Error(got)
	}
}

func TestWhatIsCalledAndWhatLacks(t *testing.T) {
	t.Parallel()
	got := answerWith(t, shop(), testCase{"getOrder id 17 and deleteOrder", []llm.ToolResult{gave("getOrder", `"here"`)}})
	if !strings.Contains(got, "here") || !strings.HasSuffix(got, "\n\n"+`deleteOrder needs "id": write it as id: value.`) || strings.Contains(got, "getOrder needs") {
		t.Error(got)
	}
}

func TestSearches(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"Zorbel Tower":                            "Zorbel Tower",
		"埃菲尔铁塔":                                   "埃菲尔铁塔",
		"height of the Zorbel Tower":              "height of the Zorbel Tower",
		"Search the web for Zorbel Tower.":        "Zorbel Tower",
		"Please look up Zorbel Tower":             "Zorbel Tower",
		"Please search the web for: Zorbel Tower": "Zorbel Tower",
		"Who built it? Please search the web.":    "Who built it?",
		"Look up":                                 "Look up",
		"Who built it?":                           "Who built it?",
	} {
		if got := asked(t, shop(), message); got != `webSearch {"query":"`+want+`"}` {
			t.Errorf("%s: %s", message, got)
		}
	}
	for _, message := range []string{"Hello there", "ok", "Thanks", "my name is Ada", "Remember milk", "Use it", "Say good night", "42", "{a}", "one two three four five six", ""} {
		if got := asked(t, shop(), message); strings.HasPrefix(got, "webSearch") {
			t.Errorf("%s: %s", message, got)
		}
	}
	knowledge := []llm.ToolSpec{{Name: "knowledge"}}
	if got := asked(t, knowledge, "Please look up X."); got != `knowledge {"query":"Please look up X."}` {
		t.Error(got)
	}
}

func TestHelpListsTools(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"What can you do?", "help", "Help!", "Hello, what can you do?"} {
		got := asked(t, shop()[:2], message)
		if got != "I can use these tools:\n\n- convert: Does convert.\n- deleteOrder: Does deleteOrder." {
			t.Errorf("%s: %s", message, got)
		}
	}
	if got := asked(t, nil, "help"); !strings.HasPrefix(got, "I have no tools.") {
		t.Error(got)
	}
}
