package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// collected contains the parts of a collection that these tests use.
type collected struct {
	Auth     auth       `json:"auth"`
	Variable []variable `json:"variable"`
	Item     []folder   `json:"item"`
}

func collect(t *testing.T, raw string) collected {
	t.Helper()
	made, err := postman(parsed(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	var out collected
	if err := json.Unmarshal(made, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const shop = `
info: {title: Shop, version: "1"}
security: [{apiKey: []}, {sessionToken: []}]
tags: [{name: Things, description: What there is.}, {name: Other}, {name: Empty}]
paths:
  /things:
    parameters: [{$ref: '#/components/parameters/OrganizationId'}]
    delete:
      tags: [Things]
      x-requests: [{title: Remove, query: {id: run_01k9z8w4q6e3v8t2m5n7p1r4s9}}]
    get:
      tags: [Things]
      summary: Read
      description: In full.
      parameters:
        - {name: limit, in: query, description: How many., schema: {type: integer, default: 20}}
        - {name: agentId, in: query, required: true, schema: {$ref: '#/components/schemas/AgentId'}}
        - {name: kind, in: query, schema: {type: string, enum: [a, b]}}
        - {name: Prefer, in: header, schema: {type: string}, example: wait=1}
      responses:
        "200": {content: {application/json: {examples: {one: {summary: One, value: {id: x}}}}}}
        "404": {content: {application/json: {example: {code: gone}}}}
    post:
      tags: [Things, Other]
      requestBody: {content: {application/json: {examples: {some: {value: {target: ag_01k9z8w4q6e3v8t2m5n7p1r4s9, n: 1}}}}}}
      x-requests:
        - {title: Make, body: some, query: {q: a b&c}, headers: {X-Kind: new}}
        - {title: Make, tag: Other, credential: demo}
        - {title: Make, tag: Other, credential: sessionToken}
      responses: {"201": {content: {application/json: {example: {id: y}}}}}
  /models/{id}:
    get:
      tags: [Other]
      security: [{}]
      x-requests: [{title: One model, path: {id: ag_01k9z8w4q6e3v8t2m5n7p1r4s9}}]
components:
  parameters: {OrganizationId: {name: x-organization-id, in: header, schema: {$ref: '#/components/schemas/OrganizationId'}}}
  schemas: {AgentId: {type: string}, OrganizationId: {type: string}}
`

// TestCollection checks the variables for IDs and the order of the requests. Requests that create
// resources must be first, and requests that delete resources last.
func TestCollection(t *testing.T) {
	t.Parallel()
	c := collect(t, shop)
	var names []string
	for _, f := range c.Item {
		for _, it := range f.Item {
			names = append(names, f.Name+"/"+it.Name+" "+it.Request.Method+" "+it.Request.URL.Raw)
		}
	}

	want := []string{
		"Things/Make POST {{baseUrl}}/things?q=a%20b%26c", "Things/Read GET {{baseUrl}}/things?agentId={{agentId}}", "Things/Remove DELETE {{baseUrl}}/things?id={{runId}}",
		"Other/Make /things POST {{baseUrl}}/things", "Other/Make /things POST {{baseUrl}}/things", "Other/One model GET {{baseUrl}}/models/{{agentId}}",
	}
	if strings.Join(names, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%s\nwant:\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
	}

	created, read := c.Item[0].Item[0], c.Item[0].Item[1]
	if created.Request.Body.Raw != "{\n  \"target\": \"{{agentId}}\",\n  \"n\": 1\n}" || created.Request.Body.Options.Raw.Language != "json" || len(created.Response) != 1 || created.Response[0].Code != 201 {
		t.Errorf("%+v %+v", created.Request.Body, created.Response)
	}
	if h := created.Request.Header; len(h) != 3 || h[0].Value != "application/json" || h[1].Key != "X-Kind" || h[2] != (variable{Key: "x-organization-id", Value: "{{organizationId}}", Disabled: true}) {
		t.Errorf("%+v", h)
	}
	if q := read.Request.URL.Query; len(q) != 3 || q[0] != (variable{Key: "limit", Value: "20", Description: "How many.", Disabled: true}) || q[1].Disabled || q[2].Value != "a" {
		t.Errorf("%+v", q)
	}
	if read.Request.Description != "Read\n\nIn full." || len(read.Response) != 1 || read.Response[0].Name != "One" || read.Request.Header[1].Value != "wait=1" {
		t.Errorf("%+v", read)
	}
}

// TestCredentials checks which credential each request uses.
func TestCredentials(t *testing.T) {
	t.Parallel()
	c := collect(t, shop)
	if c.Auth.Type != "apikey" || c.Item[0].Item[0].Request.Auth != nil {
		t.Errorf("%+v", c.Auth)
	}

	demo, session, none := c.Item[1].Item[0].Request, c.Item[1].Item[1].Request, c.Item[1].Item[2].Request
	if demo.Auth.Type != "noauth" || demo.Header[0] != (variable{Key: "x-tenant-id", Value: "tenant_demo"}) {
		t.Errorf("%+v", demo)
	}
	if session.Auth.Type != "bearer" || session.Auth.Bearer[0].Value != "{{sessionToken}}" || none.Auth.Type != "noauth" {
		t.Errorf("%+v, %+v", session.Auth, none.Auth)
	}

	for _, v := range c.Variable {
		if v.Value != "" && v.Key != "baseUrl" || v.Description == "" {
			t.Errorf("%+v", v)
		}
	}
}

func TestCollectionRefused(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"tags: [{name: A}]\npaths: {/a: {get: {tags: [B]}}}":                                          `no tag "B"`,
		"tags: [{name: A}]\npaths: {/a: {post: {tags: [A], x-requests: [{title: T, body: gone}]}}}":   `no example body "gone"`,
		"tags: [{name: A}]\npaths: {/a: {get: {tags: [A], parameters: [{$ref: '#/components/no'}]}}}": "there is no #/components/no",
	} {
		if _, err := postman(parsed(t, raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
