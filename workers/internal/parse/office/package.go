package office

import (
	"encoding/xml"
	"errors"
	"path"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/pack"
)

// relation is what a part says of another that belongs to it.
type relation struct{ kind, part string }

// relations are those of a part by their ids; a part without any has none.
func relations(a *pack.Archive, of string) (map[string]relation, error) {
	dir, name := path.Split(of)
	e, err := a.XML(dir + "_rels/" + name + ".rels")
	if errors.Is(err, pack.ErrNoPart) {
		return map[string]relation{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]relation{}
	err = e.Each(func(s xml.StartElement) error {
		if s.Name.Local != "Relationship" || pack.Attr(s, "TargetMode") == "External" {
			return nil
		}
		target := pack.Attr(s, "Target")
		if !strings.HasPrefix(target, "/") {
			target = dir + target
		}
		all[pack.Attr(s, "Id")] = relation{kind: path.Base(pack.Attr(s, "Type")), part: strings.TrimPrefix(path.Clean(target), "/")}
		return nil
	})
	return all, err
}

// related is the part of a kind that belongs to another; "" when there is none.
func related(all map[string]relation, kind string) string {
	for _, r := range all {
		if r.kind == kind {
			return r.part
		}
	}
	return ""
}

// mainPart is the part that a package is about.
func mainPart(a *pack.Archive, usual string) (string, error) {
	all, err := relations(a, "")
	if err != nil {
		return "", err
	}
	if part := related(all, "officeDocument"); part != "" && a.Has(part) {
		return part, nil
	}
	if a.Has(usual) {
		return usual, nil
	}
	return "", &document.Failure{Code: document.Damaged, Message: "The document is damaged: its main part is missing."}
}

// properties are what a package says of itself.
func properties(a *pack.Archive) (document.Info, error) {
	var info document.Info
	e, err := a.XML("docProps/core.xml")
	if err != nil {
		return info, none(err)
	}
	_ = e.Each(func(s xml.StartElement) (err error) { // a fault in the metadata does not fail the document
		switch s.Name.Local {
		case "title":
			info.Title, err = e.Text()
		case "language":
			info.Language, err = e.Text()
		}
		return err
	})
	return info, nil
}

// none makes of a part's absence no error.
func none(err error) error {
	if errors.Is(err, pack.ErrNoPart) {
		return nil
	}
	return err
}

// choices see to it that of alternatives for programs of several ages one is read.
type choices map[int]bool

// skip reports an alternative that is not to be read, at the depth where it stands.
func (c choices) skip(name string, depth int) bool {
	switch name {
	case "AlternateContent":
		c[depth] = false
	case "Choice", "Fallback":
		taken, inside := c[depth-1]
		c[depth-1] = true
		return inside && taken
	}
	return false
}
