package office

import (
	"encoding/xml"
	"errors"
	"path"
	"strings"

	"parley/workers/internal/document"
	"parley/workers/internal/parse/pack"
)

// relation is a relationship from one part of an Office package to another part. kind is the last
// element of the relationship's type, such as "styles". The field part is the name of the other
// part in the archive, without a leading slash.
type relation struct{ kind, part string }

// relations returns the relationships of a part. The keys of the map are the ids of the
// relationships. The argument of is the name of the part, or "" for the package itself. The map is
// empty if the part has no relationships. References to other files and to the web are omitted, so
// the readers never follow them.
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

// related returns the part to which a relationship of the given kind refers, or "" if there is
// none. If there are several, any of them is returned.
func related(all map[string]relation, kind string) string {
	for _, r := range all {
		if r.kind == kind {
			return r.part
		}
	}
	return ""
}

// mainPart returns the main part of a package: the part that the package states or, if the archive
// contains no such part, the part whose name is the argument usual. If this part is missing as
// well, mainPart fails with the code damaged.
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

// properties returns the title and the language from the properties of a package. A package without
// properties, or with malformed ones, has empty values. properties fails only if a part cannot be
// decompressed.
func properties(a *pack.Archive) (document.Info, error) {
	var info document.Info
	e, err := a.XML("docProps/core.xml")
	if err != nil {
		return info, ignoreMissing(err)
	}

	_ = e.Each(func(s xml.StartElement) (err error) { // errors are ignored, because metadata is optional
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

// ignoreMissing returns nil if err means that a part is missing, and otherwise err.
func ignoreMissing(err error) error {
	if errors.Is(err, pack.ErrNoPart) {
		return nil
	}
	return err
}

// choices selects one of several alternatives. A document may contain the same content in
// alternative forms for different versions of a program. The keys are the depths of the groups of
// alternatives in the document. A value is true if an alternative of the group has already been
// selected. The first alternative is selected.
type choices map[int]bool

// skip reports whether the element at this depth is an alternative that is not selected. It must be
// called for each element that is read, in order, because it also records the groups.
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
