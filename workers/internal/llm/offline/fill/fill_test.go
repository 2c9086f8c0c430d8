package fill

import (
	"encoding/json"
	"testing"

	"parley/shared/domain"
	"parley/workers/internal/llm"
)

// TestAnswer checks the JSON that Answer returns for a schema and a message.
func TestAnswer(t *testing.T) {
	t.Parallel()
	person := `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"email":{"type":"string","format":"email"},"city":{"type":"string"}},"required":["name","age","email","city"]}`
	invoice := `{"type":"object","properties":{"vendor":{"type":"string"},"number":{"type":"string"},"date":{"type":"string","format":"date"},` +
		`"total":{"type":"number"},"currency":{"enum":["USD","EUR"]},"paid":{"type":"boolean"},"note":{"type":["string","null"]}},"required":["vendor","number","date","total","currency","paid","note"]}`
	order := `{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},` +
		`"quantity":{"type":"integer"},"price":{"type":"number"}},"required":["name","quantity"]}}},"required":["items"]}`
	for name, c := range map[string]struct{ schema, message, want string }{
		"person": {
			person, "My name is Ada Lovelace, I am 36 and live in London. Write to ada@example.com.",
			`{"name":"Ada Lovelace","age":36,"email":"ada@example.com","city":"London"}`,
		},
		"nothing": {person, "hello", `{"name":"","age":0,"email":"","city":""}`},
		"invoice": {
			invoice, "Invoice INV-2031 from Acme Ltd, dated 3 March 2026, total 1,240.50 EUR, not paid.",
			`{"vendor":"Acme Ltd","number":"INV-2031","date":"2026-03-03","total":1240.50,"currency":"EUR","paid":false,"note":null}`,
		},
		"order": {
			order, "I would like 2 lamps at 30 euros and 3 chairs at 45.50",
			`{"items":[{"name":"lamps","quantity":2,"price":30},{"name":"chairs","quantity":3,"price":45.50}]}`,
		},
		"numbers":      {`{"type":"array","items":{"type":"number"}}`, "add 3, 4.5 and -2", `[3,4.5,-2]`},
		"enumerations": {`{"type":"array","items":{"enum":["red","green","blue"]},"minItems":1}`, "blue and red, not green", `["blue","red"]`},
		"tags":         {`{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}}},"required":["tags"]}`, "Tags: urgent, home office and billing.", `{"tags":["urgent","home office","billing"]}`},
		"sentiment":    {`{"type":"object","properties":{"sentiment":{"enum":["positive","negative"]},"urgent":{"type":"boolean"}},"required":["sentiment","urgent"]}`, "A negative review, urgent!", `{"sentiment":"negative","urgent":true}`},
		"reference":    {`{"$ref":"#/$defs/lamp","$defs":{"lamp":{"type":"object","properties":{"watts":{"type":"integer"}},"required":["watts"]}}}`, "a lamp of 7 watts", `{"watts":7}`},
		"alternatives": {`{"anyOf":[{"type":"object","properties":{"email":{"type":"string","format":"email"}},"required":["email"]},{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"]}]}`, "count 4", `{"count":4}`},
		"any object":   {`{"type":"object"}`, "watts: 7; colour: red", `{"watts":"7","colour":"red"}`},
		"JSON":         {`{"type":"object"}`, `Use {"a":[1,2]}`, `{"a":[1,2]}`},
		"bounds":       {`{"type":"object","properties":{"n":{"type":"integer","minimum":10,"multipleOf":5}},"required":["n"]}`, "3 or 12 or 25", `{"n":25}`},
		"recursive":    {`{"type":"object","properties":{"n":{"type":"integer"},"next":{"$ref":"#"}},"required":["n"]}`, "1 then 2", `{"n":1,"next":{"n":2}}`},
		"pattern":      {`{"type":"object","properties":{"plate":{"type":"string","pattern":"^[A-Z]{2}-\\d{3}$"}},"required":["plate"]}`, "the car AB-123", `{"plate":"AB-123"}`},
		"older draft":  {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string","enum":["red","blue"]}],"additionalItems":{"$ref":"#/definitions/n"},"definitions":{"n":{"type":"integer"}}}`, "blue: 3 and 4", `["blue",3,4]`},
		"root number":  {`{"type":"integer"}`, "about 17 people", `17`},
		"date-time":    {`{"type":"object","properties":{"at":{"type":"string","format":"date-time"}},"required":["at"]}`, "on 2026-04-01", `{"at":"2026-04-01T00:00:00Z"}`},
	} {
		if got := Answer(json.RawMessage(c.schema), Input{Message: c.message}); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// TestAnswerFromResults checks that Answer takes a value from the tool results if the message does
// not contain the value. Values from sources must have citations.
func TestAnswerFromResults(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"data":{"type":"object","properties":{"tower":{"type":"string"},"height":{"type":"number"},"status":{"type":"string"}},` +
		`"required":["tower","height","status"]},"citations":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"},"source":{"type":"integer"}}}}}}`
	in := Input{
		Message: "How high is the tower?",
		Results: []llm.ToolResult{
			{Name: "find", Output: json.RawMessage(`{"order":{"status":"open"}}`)},
			{Name: "webSearch", Output: json.RawMessage(`{}`), Sources: []domain.Citation{{ID: 4, CitedText: "It was built in 1889. The tower is 330 m high."}}},
		},
		Passages: []string{"The tower is 330 m high."},
	}
	if got, want := Answer(json.RawMessage(schema), in), `{"data":{"tower":"","height":330,"status":"open"},"citations":[{"path":"/height","source":4}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Values of the data are converted to the types of the schema, or omitted.
func TestDataOfOtherTypes(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","properties":{"orderId":{"type":"string"},"urgent":{"type":"boolean"},"count":{"type":"integer"}},"required":["orderId","urgent","count"]}`
	in := Input{Data: json.RawMessage(`{"orderId":4711,"urgent":1,"count":"3"}`)}
	if got, want := Answer(json.RawMessage(schema), in), `{"orderId":"4711","urgent":false,"count":0}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRecursiveSchemas fills schemas that refer to themselves. Unless the data has more levels, at
// most two values of the same reference are nested. Any value within these is the smallest valid
// value, so the nesting ends.
func TestRecursiveSchemas(t *testing.T) {
	t.Parallel()
	tree := `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},` +
		`"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name","children"]}}}`
	optional := `{"type":"object","properties":{"name":{"type":"string"},"left":{"$ref":"#"},"right":{"$ref":"#"},"up":{"$ref":"#"},"last":{"type":"integer"}},"required":["name","last"]}`
	nullable := `{"type":"object","properties":{"name":{"type":"string"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["name","next"]}`
	expression := `{"$ref":"#/$defs/e","$defs":{"e":{"oneOf":[{"type":"object","properties":{"left":{"$ref":"#/$defs/e"},"right":{"$ref":"#/$defs/e"}},"required":["left","right"]},` +
		`{"type":"object","properties":{"value":{"type":"integer"}},"required":["value"]}]}}}`
	mutual := `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object","properties":{"b":{"allOf":[{"$ref":"#/$defs/b"}]}},"required":["b"]},` +
		`"b":{"type":"object","properties":{"list":{"type":"array","minItems":1,"items":{"enum":["x","y"]}},"a":{"anyOf":[{"allOf":[{"$ref":"#/$defs/a"}]},{"type":"null"}]}},"required":["list","a"]}}}`
	endless := `{"type":"object","properties":{"self":{"$ref":"#"},"n":{"type":"integer"}},"required":["self","n"]}`
	data := `{"name":"a","children":[{"name":"b","children":[{"name":"c","children":[{"name":"d","children":[]}]}]}]}`
	for name, c := range map[string]struct{ schema, message, data, want string }{
		"tree":          {tree, "The name is Ada. The name is Bob.", "", `{"name":"Ada","children":[{"name":"Ada","children":[]},{"name":"Bob","children":[]}]}`},
		"tree, nothing": {tree, "", "", `{"name":"","children":[]}`},
		"tree of data":  {tree, "", data, data},
		"optional":      {optional, "name: Ada", "", `{"name":"Ada","left":{"name":"Ada","last":0},"right":{"name":"Ada","last":0},"up":{"name":"Ada","last":0},"last":0}`},
		"nullable":      {nullable, "", "", `{"name":"","next":null}`},
		"expression":    {expression, "nothing", "", `{"left":{"left":{"value":0},"right":{"value":0}},"right":{"left":{"value":0},"right":{"value":0}}}`},
		"mutual":        {mutual, "nothing", "", `{"b":{"list":["x"],"a":null}}`},
		"endless":       {endless, "", "", `null`},
	} {
		in := Input{Message: c.message, Data: json.RawMessage(c.data)}
		if got := Answer(json.RawMessage(c.schema), in); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
