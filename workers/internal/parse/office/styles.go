package office

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"

	"parley/workers/internal/parse/pack"
)

// style contains the settings of a paragraph style that identify headings and list items.
type style struct {
	// name is the style's displayed name, which may be in the language of the program.
	name string
	// basedOn is the id of the style from which the settings are inherited, or "".
	basedOn string
	outline int // heading level from 1 to 9; 0 for text; -1 if not set
	// list is true if the style numbers its paragraphs or gives them bullets.
	list bool
}

// styles maps the ids of paragraph styles to their settings. It is read once and then not changed.
type styles map[string]*style

// headingName matches the names that heading styles have in various languages.
var headingName = regexp.MustCompile(`(?i)^(?:heading|überschrift|berschrift|titre|título|titulo|titolo|kop|rubrik|overskrift|otsikko|nadpis|nagłówek|nagwek|` +
	`címsor|cmsor|başlık|balk|titlu|naslov|заголовок|επικεφαλίδα|כותרת|عنوان|标题|標題|見出し|제목|หัวเรื่อง)[ _-]?([1-9])$`)

// readStyles reads the paragraph styles from a part. It returns an empty map if the part is
// missing. It ignores the language of the styles, which is usually the language of the program and
// not of the text.
func readStyles(a *pack.Archive, part string) (styles, error) {
	all := styles{}
	e, err := a.XML(part)
	if err != nil {
		return all, ignoreMissing(err)
	}

	var s *style
	err = e.Each(func(start xml.StartElement) error {
		switch val := pack.Attr(start, "val"); start.Name.Local {
		case "style":
			s = &style{outline: -1}
			if kind := pack.Attr(start, "type"); kind == "paragraph" || kind == "" {
				all[pack.Attr(start, "styleId")] = s
			}
		case "name", "basedOn", "outlineLvl", "numId":
			if s != nil {
				s.set(start.Name.Local, val)
			}
		}
		return nil
	})
	return all, err
}

// maxName is the maximum length of a style's values, such as its name, in bytes. The limit is
// needed because these values are examined for every paragraph.
const maxName = 200

// set sets the property of a style that corresponds to an element, whose name is the argument what.
// It truncates the value to maxName bytes.
func (s *style) set(what, val string) {
	val = val[:min(len(val), maxName)]
	switch what {
	case "name":
		s.name = val
	case "basedOn":
		s.basedOn = val
	case "outlineLvl":
		s.outline = outline(val)
	case "numId":
		s.list = val != "0"
	}
}

// outline converts an outline level to a heading level. Levels in the file begin at 0, heading
// levels at 1. Invalid levels and level 9, which means ordinary text, become 0.
func outline(val string) int {
	n, err := strconv.Atoi(val)
	if err != nil || n < 0 || n > 8 {
		return 0
	}
	return n + 1
}

// level returns the heading level of a style, or 0 for ordinary text. The level may be set in the
// style itself, or in a style on which the style is based.
//
// The explicit level takes precedence over the level in the style's name. The limit of 20 steps
// ends the search if styles are based on each other in a circle.
func (all styles) level(id string) int {
	for range 20 {
		s := all[id]
		if s == nil {
			return named(id)
		}
		if s.outline >= 0 {
			return s.outline
		}
		if n := max(named(s.name), named(id)); n > 0 {
			return n
		}
		id = s.basedOn
	}
	return 0
}

// named returns the heading level from 1 to 9 that a style's name or id indicates, or 0.
func named(name string) int {
	switch strings.ToLower(name) {
	case "title", "titel":
		return 1
	}
	if m := headingName.FindStringSubmatch(name); m != nil {
		return int(m[1][0] - '0')
	}
	return 0
}

// listed reports whether paragraphs with the given style are list items. Like level, it follows at
// most 20 styles.
func (all styles) listed(id string) bool {
	for range 20 {
		s := all[id]
		if s == nil {
			return false
		}
		if s.list || strings.HasPrefix(strings.ToLower(s.name), "list bullet") || strings.HasPrefix(strings.ToLower(s.name), "list number") {
			return true
		}
		id = s.basedOn
	}
	return false
}
