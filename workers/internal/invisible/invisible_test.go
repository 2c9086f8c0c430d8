package invisible

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestElement(t *testing.T) {
	t.Parallel()
	names := Names{}
	names.Add(`/* .note{display:none} */ .gone, #away { color: red; display: none } .a .b { display: none } @media print { .shown { display: none } }`)
	for element, want := range map[string]bool{
		`<p>`:                                        false,
		`<p hidden>`:                                 true,
		`<p hidden="until-found">`:                   false,
		`<p aria-hidden=" TRUE ">`:                   true,
		`<table aria-hidden="true">`:                 false,
		`<p style="color:red; DISPLAY : none">`:      true,
		`<p style="opacity:0.5">`:                    false,
		`<p style="opacity:0">`:                      true,
		`<p style="position:absolute;left:-9999px">`: true,
		`<p style="clip:rect(0,0,0,0)">`:             true,
		`<p style="clip-path:inset(50%)">`:           true,
		`<p style="height:0;overflow:hidden">`:       true,
		`<p style="height:0.5em">`:                   false,
		`<p class="lead sr-only">`:                   true,
		`<p class="srs-only">`:                       false,
		`<p class="gone">`:                           true,
		`<p id="away">`:                              true,
		`<p class="note">`:                           false,
		`<p class="shown">`:                          false,
		`<p class="a b">`:                            false,
	} {
		if got := Element(first(t, element), names); got != want {
			t.Errorf("%s: %v", element, got)
		}
	}
	if Element(first(t, `<p class="gone">`), nil) {
		t.Error("a class is hidden that no style sheet names")
	}
	for n := range first(t, "<p>").Parent.Parent.Descendants() {
		n.Attr = []html.Attribute{{Key: "style", Val: "visibility:hidden"}}
		if got, want := Element(n, nil), n.Data == "p" || n.Data == "head"; got != want {
			t.Errorf("%s: %v", n.Data, got)
		}
	}
}

// first returns the first element in the body of a page.
func first(t *testing.T, page string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && (n.Data == "p" || n.Data == "table") {
			return n
		}
	}
	t.Fatalf("%s has no element", page)
	return nil
}
