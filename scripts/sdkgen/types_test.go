package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/yamldoc"
)

// small contains small OpenAPI documents, each with the types that are expected in each language.
var small = []struct{ name, doc, typeScript, python string }{
	{
		"plain",
		"A: {type: string, description: A text.}",
		"/** A text. */\nexport type A = string;",
		"A: TypeAlias = str\n\"\"\"A text.\"\"\"",
	},
	{
		"record",
		"A: {type: object, description: One., required: [n, b], additionalProperties: false, properties: {n: {type: integer, description: Whole.}, b: {type: boolean}, f: {type: number}, l: {type: array, items: {type: string}}}}",
		"/** One. */\nexport interface A {\n  /** Whole. */\n  n: number;\n  b: boolean;\n  f?: number;\n  l?: Array<string>;\n}",
		"class A(TypedDict):\n    \"\"\"One.\"\"\"\n\n    n: int\n    \"\"\"Whole.\"\"\"\n\n    b: bool\n    f: NotRequired[float]\n    l: NotRequired[list[str]]",
	},
	{
		"nullable by type", "A: {type: [string, 'null']}", "export type A = string | null;", "A: TypeAlias = str | None",
	},
	{
		"null stands last", "A: {type: ['null', integer, string]}", "export type A = number | string | null;", "A: TypeAlias = int | str | None",
	},
	{
		"nullable by alternative",
		"A: {oneOf: [{type: 'null'}, {$ref: '#/components/schemas/B'}]}\n    B: {type: string}",
		"export type A = B | null;\n\nexport type B = string;",
		"B: TypeAlias = str\n\n\nA: TypeAlias = B | None",
	},
	{"nullable as 3.0 had it", "A: {type: string, nullable: true}", "export type A = string | null;", "A: TypeAlias = str | None"},
	{"only null", "A: {type: 'null'}", "export type A = null;", "A: TypeAlias = None"},
	{"enum", "A: {type: string, enum: [x, y]}", "export type A = \"x\" | \"y\";", "A: TypeAlias = Literal[\"x\", \"y\"]"},
	{"enum with null", "A: {enum: [x, 1, true, null]}", "export type A = \"x\" | 1 | true | null;", "A: TypeAlias = Literal[\"x\", 1, True] | None"},
	{"const", "A: {const: \"a\\\"b\"}", `export type A = "a\"b";`, `A: TypeAlias = Literal["a\"b"]`},
	{"number as a const", "A: {const: 1.5}", "export type A = 1.5;", "A: TypeAlias = float"},
	{
		"explained values",
		"A: {type: string, oneOf: [{const: x, description: The x.}, {const: y}]}",
		"export type A =\n  /** The x. */\n  | \"x\"\n  | \"y\";",
		"A: TypeAlias = Literal[\n    # The x.\n    \"x\",\n    \"y\",\n]",
	},
	{"dictionary", "A: {type: object, additionalProperties: {type: integer}}", "export type A = Record<string, number>;", "A: TypeAlias = dict[str, int]"},
	{"anything by name", "A: {type: object}", "export type A = Record<string, unknown>;", "A: TypeAlias = dict[str, Any]"},
	{"nothing by name", "A: {type: object, additionalProperties: false}", "export type A = Record<string, never>;", "A: TypeAlias = dict[str, Never]"},
	{"anything", "A: {description: Whatever.}", "/** Whatever. */\nexport type A = unknown;", "A: TypeAlias = Any\n\"\"\"Whatever.\"\"\""},
	{"anything else is part of anything", "A: {oneOf: [{type: string}, {}]}", "export type A = unknown;", "A: TypeAlias = Any"},
	{"bytes", "A: {type: string, contentMediaType: application/octet-stream}\n    B: {type: array, items: {type: string, format: binary}}", "export type A = Blob | Uint8Array;\n\nexport type B = Array<Blob | Uint8Array>;", "A: TypeAlias = bytes\n\n\nB: TypeAlias = list[bytes]"},
	{
		"list of fixed length",
		"A: {type: [array, 'null'], minItems: 2, maxItems: 2, items: {type: number}}\n    B: {type: array, minItems: 1, maxItems: 2, items: {type: string}}",
		"export type A = [number, number] | null;\n\nexport type B = Array<string>;",
		"A: TypeAlias = list[float] | None\n\n\nB: TypeAlias = list[str]",
	},
	{"list of anything", "A: {type: array}", "export type A = Array<unknown>;", "A: TypeAlias = list[Any]"},
	{
		"open record",
		"A: {type: object, required: [m], properties: {m: {type: string}}}\n    B: {type: array, items: {$ref: '#/components/schemas/A'}}",
		"export interface A {\n  m: string;\n  [key: string]: unknown;\n}\n\nexport type B = Array<A>;",
		"class A(TypedDict):\n    m: str\n\n\nB: TypeAlias = list[A | dict[str, Any]]",
	},
	{
		"records within",
		"A: {type: object, additionalProperties: false, required: [in-ner, all], properties: {in-ner: {type: [object, 'null'], additionalProperties: false, properties: {x: {type: string}}}, all: {type: array, items: {type: object, additionalProperties: false, properties: {y: {type: string}}}}}}",
		"export interface A {\n  \"in-ner\": AInNer | null;\n  all: Array<AAllItem>;\n}\n\nexport interface AInNer {\n  x?: string;\n}\n\nexport interface AAllItem {\n  y?: string;\n}",
		"class AInNer(TypedDict):\n    x: NotRequired[str]\n\n\nclass AAllItem(TypedDict):\n    y: NotRequired[str]\n\n\nA = TypedDict(\n    \"A\",\n    {\n        \"in-ner\": AInNer | None,\n        \"all\": list[AAllItem],\n    },\n)",
	},
	{
		"recursive",
		"A: {type: object, additionalProperties: false, properties: {next: {$ref: '#/components/schemas/A'}, b: {type: array, items: {$ref: '#/components/schemas/B'}}}}\n    B: {oneOf: [{$ref: '#/components/schemas/A'}, {type: 'null'}]}",
		"export interface A {\n  next?: A;\n  b?: Array<B>;\n}\n\nexport type B = A | null;",
		"B: TypeAlias = \"A | None\"\n\n\nclass A(TypedDict):\n    next: NotRequired[\"A\"]\n    b: NotRequired[list[B]]",
	},
	{
		"put together",
		"A: {allOf: [{$ref: '#/components/schemas/B'}, {properties: {k: {const: a}, n: {type: integer}}, required: [n]}], description: Both.}\n    B: {type: object, required: [k], additionalProperties: false, properties: {k: {type: string}, m: {type: string}}}",
		"/** Both. */\nexport interface A {\n  k: \"a\";\n  m?: string;\n  n: number;\n}\n\nexport interface B {\n  k: string;\n  m?: string;\n}",
		"class A(TypedDict):\n    \"\"\"Both.\"\"\"\n\n    k: Literal[\"a\"]\n    m: NotRequired[str]\n    n: int\n\n\nclass B(TypedDict):\n    k: str\n    m: NotRequired[str]",
	},
	{
		"one part put together", "A: {type: object, additionalProperties: false, properties: {b: {allOf: [{$ref: '#/components/schemas/B'}], description: It.}}}\n    B: {type: string, enum: [x]}",
		"export interface A {\n  /** It. */\n  b?: B;\n}\n\nexport type B = \"x\";",
		"B: TypeAlias = Literal[\"x\"]\n\n\nclass A(TypedDict):\n    b: NotRequired[B]\n    \"\"\"It.\"\"\"",
	},
	{
		"alternatives that only require",
		"A: {type: object, description: Some., additionalProperties: false, oneOf: [{required: [x]}, {required: [y, z]}], properties: {x: {type: string}, y: {type: string}, z: {type: string, default: q}}}",
		"/**\n * Some.\n *\n * Exactly one of these is required: `x`, or `y` with `z`.\n */\nexport interface A {\n  x?: string;\n  y?: string;\n  /** Default: `\"q\"`. */\n  z?: string;\n}",
		"class A(TypedDict):\n    \"\"\"Some.\n\n    Exactly one of these is required: `x`, or `y` with `z`.\n    \"\"\"\n\n    x: NotRequired[str]\n    y: NotRequired[str]\n\n    z: NotRequired[str]\n    \"\"\"Default: `\"q\"`.\"\"\"",
	},
	{
		"alternatives told apart",
		"A: {anyOf: [{type: object, additionalProperties: false, required: [k], properties: {k: {const: a}}}, {type: object, additionalProperties: false, required: [k], properties: {k: {const: b}}}, {type: string}]}",
		"export type A = A1 | A2 | string;\n\nexport interface A1 {\n  k: \"a\";\n}\n\nexport interface A2 {\n  k: \"b\";\n}",
		"class A1(TypedDict):\n    k: Literal[\"a\"]\n\n\nclass A2(TypedDict):\n    k: Literal[\"b\"]\n\n\nA: TypeAlias = A1 | A2 | str",
	},
	{
		"members of other schemas",
		"A: {type: object, additionalProperties: false, properties: {o: {type: object, additionalProperties: false, properties: {x: {type: string}}}, s: {type: integer}}}\n    B: {type: object, additionalProperties: false, properties: {o: {$ref: '#/components/schemas/A/properties/o'}, s: {$ref: '#/components/schemas/A/properties/s'}}}",
		"export interface A {\n  o?: AO;\n  s?: number;\n}\n\nexport interface AO {\n  x?: string;\n}\n\nexport interface B {\n  o?: AO;\n  s?: number;\n}",
		"class AO(TypedDict):\n    x: NotRequired[str]\n\n\nclass A(TypedDict):\n    o: NotRequired[AO]\n    s: NotRequired[int]\n\n\nclass B(TypedDict):\n    o: NotRequired[AO]\n    s: NotRequired[int]",
	},
	{
		"reserved words",
		"Record: {type: string}\n    none-such: {type: object, additionalProperties: false, required: [from], properties: {from: {$ref: '#/components/schemas/Record'}, class: {type: string, description: Its class.}}}",
		"export type Record_ = string;\n\nexport interface NoneSuch {\n  from: Record_;\n  /** Its class. */\n  class?: string;\n}",
		"Record_: TypeAlias = str\n\n\nNoneSuch = TypedDict(\n    \"NoneSuch\",\n    {\n        \"from\": Record_,\n        # Its class.\n        \"class\": NotRequired[str],\n    },\n)",
	},
	{
		"hostile descriptions",
		`A: {type: string, description: "ends */ and \"\"\" and \\d"}` + "\n    " + `B: {type: string, description: 'says "so"'}`,
		"/** ends *\\/ and \"\"\" and \\d */\nexport type A = string;\n\n/** says \"so\" */\nexport type B = string;",
		"A: TypeAlias = str\nr\"\"\"ends */ and ''' and \\d\"\"\"\n\n\nB: TypeAlias = str\n\"\"\"says \"so\"\n\"\"\"",
	},
	{"deprecated", "A: {type: string, description: Old., deprecated: true}", "/**\n * Old.\n *\n * @deprecated\n */\nexport type A = string;", "A: TypeAlias = str\n\"\"\"Old.\n\n@deprecated\n\"\"\""},
}

// TestTypes generates the types of small documents in each language.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, row := range small {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			doc := parsed(t, schemas(strings.Split(row.doc, "\n    ")...))
			made, err := typeScript(doc)
			if err != nil {
				t.Fatal(err)
			}
			if _, got, _ := strings.Cut(string(made), "\n\n"); strings.TrimSpace(got) != row.typeScript {
				t.Errorf("TypeScript:\n%s\nwant:\n%s", got, row.typeScript)
			}
			if made, err = python(doc); err != nil {
				t.Fatal(err)
			}
			if _, got, _ := strings.Cut(string(made), "]\n"); strings.TrimSpace(got) != row.python {
				t.Errorf("Python:\n%s\nwant:\n%s", got, row.python)
			}
		})
	}
}

// TestPython executes the generated Python types in an interpreter.
func TestPython(t *testing.T) {
	t.Parallel()
	modules := make([][]byte, 0, len(small))
	for _, row := range small {
		made, err := python(parsed(t, schemas(strings.Split(row.doc, "\n    ")...)))
		if err != nil {
			t.Fatal(err)
		}
		modules = append(modules, made)
	}
	isPython(t, modules...)
}

// isPython fails the test unless an interpreter can execute the given modules.
func isPython(t *testing.T, modules ...[]byte) {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Logf("NOT TESTED: running the generated Python, because Python is missing: %v", err)
		return
	}

	args := []string{"-I", "-c", "import runpy, sys\nfor path in sys.argv[1:]: runpy.run_path(path)"}
	dir := t.TempDir()
	for i, made := range modules {
		path := filepath.Join(dir, fmt.Sprintf("types%d.py", i))
		if err := os.WriteFile(path, made, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}

	if printed, err := exec.CommandContext(t.Context(), interpreter, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, printed, bytes.Join(modules, nil))
	}
}

// TestRefused checks that sdkgen rejects documents for which it cannot generate valid types.
func TestRefused(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		schemas("A: {$ref: '#/components/schemas/B'}"):                               "A references B, which does not exist",
		schemas("A: {$ref: 'https://example.com/a.json'}"):                           "is not a schema in the document",
		schemas("A: {type: text}"):                                                   `unknown type "text"`,
		schemas("A-b: {type: string}", "AB: {type: string}"):                         "two types have the name AB",
		schemas("A: {allOf: [{$ref: '#/components/schemas/A'}, {type: object}]}"):    "a schema contains itself through allOf",
		schemas("A: {allOf: [{$ref: '#/components/schemas/Gone'}, {type: object}]}"): "there is no #/components/schemas/Gone",
		"paths: {/a: {get: {parameters: [{$ref: '#/components/parameters/Gone'}]}}}": "there is no #/components/parameters/Gone",
	} {
		if _, err := definitions(parsed(t, doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", doc, err, want)
		}
	}

	if _, err := yamldoc.Parse([]byte("a: [")); err == nil {
		t.Error("an incomplete document was accepted")
	}
}

// TestOperations checks the types of the operations' inputs and outputs.
func TestOperations(t *testing.T) {
	t.Parallel()
	made, err := typeScript(parsed(t, `
paths:
  /things/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
      - {name: q, in: query, schema: {type: integer}}
    post:
      operationId: makeThing
      summary: Make a thing
      parameters:
        - {name: q, in: query, required: true, description: The question., schema: {type: string, default: x}}
        - {name: X-Kind, in: header, schema: {type: string, enum: [a, b]}}
      requestBody:
        content:
          application/json: {schema: {type: object, required: [n], additionalProperties: false, properties: {n: {type: integer}}}}
      responses:
        "200":
          content:
            application/octet-stream: {schema: {$ref: '#/components/schemas/Bytes'}}
            application/json: {schema: {oneOf: [{$ref: '#/components/schemas/Thing'}, {$ref: '#/components/schemas/Other'}]}}
            text/event-stream: {schema: {$ref: '#/components/schemas/Thing'}}
        "404": {content: {application/json: {schema: {type: object}}}}
    get:
      summary: Look
      responses: {"204": {description: Nothing.}}
components:
  schemas:
    Bytes: {type: string, contentMediaType: application/octet-stream}
    Thing: {type: string}
    Other: {description: Anything.}
`))
	if err != nil {
		t.Fatal(err)
	}

	_, got, _ := strings.Cut(string(made), "Other = unknown;\n\n") // the types after those of the schemas
	const want = "/** The path parameters of `POST /things/{id}`: Make a thing. */\nexport interface MakeThingPath {\n  id: string;\n}\n\n" +
		"/** The query parameters of `POST /things/{id}`: Make a thing. */\nexport interface MakeThingQuery {\n  /** The question. Default: `\"x\"`. */\n  q: string;\n}\n\n" +
		"/** The headers of `POST /things/{id}`: Make a thing. */\nexport interface MakeThingHeaders {\n  \"X-Kind\"?: \"a\" | \"b\";\n}\n\n" +
		"/** The body of `POST /things/{id}`: Make a thing. */\nexport interface MakeThingBody {\n  n: number;\n}\n\n" +
		"/** The response to `POST /things/{id}`: Make a thing. */\nexport type MakeThingAnswer = Bytes | Thing;\n\n" +
		"/** An event of `POST /things/{id}`. */\nexport type MakeThingEvent = Thing;\n\n" +
		"/** The path parameters of `GET /things/{id}`: Look. */\nexport interface GetThingsIdPath {\n  id: string;\n}\n\n" +
		"/** The query parameters of `GET /things/{id}`: Look. */\nexport interface GetThingsIdQuery {\n  q?: number;\n}\n"
	if got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}

// TestLayout checks that only long expressions are broken into lines.
func TestLayout(t *testing.T) {
	t.Parallel()
	long := []string{strings.Repeat("a", 30), strings.Repeat("b", 30), strings.Repeat("c", 30)}
	doc := parsed(t, schemas("A: {enum: ["+strings.Join(long, ", ")+"]}",
		"B: {type: object, additionalProperties: false, properties: {x: {type: array, items: {enum: ["+strings.Join(long, ", ")+"]}}}}"))
	made, err := python(doc)
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(made)) {
		if len(line) > width+1 {
			t.Errorf("line too long: %s", line)
		}
	}

	if !strings.Contains(string(made), "A: TypeAlias = Literal[\n    \""+strings.Join(long, "\",\n    \"")+"\",\n]\n") {
		t.Errorf("%s", made)
	}

	isPython(t, made)
	if made, err = typeScript(doc); err != nil || !strings.Contains(string(made), "export type A =\n  | \""+strings.Join(long, "\"\n  | \"")+"\";") {
		t.Errorf("%v\n%s", err, made)
	}

	lines := wrap("One two three\nfour.\n\n| a | b |\n- item one\n  goes on\n- item two\n\n\nEnd", 12)
	if got := strings.Join(lines, "/"); got != "One two/three four.//| a | b |/- item one/goes on/- item two//End" {
		t.Errorf("wrapped as %s", got)
	}
}
