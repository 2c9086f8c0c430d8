package yamldoc

import "testing"

func TestParseKeepsOrder(t *testing.T) {
	t.Parallel()
	o, err := Parse([]byte("z: &z {b: 1, a: <x>}\na:\n  <<: *z\n  200: 2026-01-01\nl: [*z, 1.5, true, null, '1']\nr: {$ref: '#/a'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := JSON(o)
	want := `{"z":{"b":1,"a":"<x>"},"a":{"b":1,"a":"<x>","200":"2026-01-01"},"l":[{"b":1,"a":"<x>"},1.5,true,null,"1"],"r":{"$ref":"#/a"}}`
	if err != nil || string(raw) != want {
		t.Errorf("got  %s, %v\nwant %s", raw, err, want)
	}
	if to, err := o.Resolve(o.At("r")); err != nil || to.Get("b") != 1 {
		t.Errorf("resolved %v, %v", to, err)
	}
	for _, ref := range []string{"#/r", "#/b", "other.yaml#/a"} {
		o[3].Value = Object{{"$ref", ref}}
		if _, err := o.Resolve(o.At("r")); err == nil {
			t.Errorf("%s is resolved", ref)
		}
	}
	for _, text := range []string{"a: [", "- a", "x: *y"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
