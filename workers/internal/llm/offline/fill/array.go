package fill

import (
	"cmp"
	"slices"
	"strings"
)

// array returns a list with values for the schema's items. The first items may have schemas of
// their own. All other items share a schema.
func (f *filler) array(s *node, name string, in []*text, depth int) (raw string, found bool) {
	var items []string
	for _, one := range s.firstItems() {
		sub, _ := one.(*node)
		raw, ok := f.value(sub, name, in, depth+1)
		items, found = append(items, cmp.Or(raw, "null")), found || ok
	}

	// If the schema requires more than maxItems items, the list may have as many items as required.
	most := min(s.count("maxItems", maxItems), max(maxItems, s.count("minItems", 0)))
	if of := s.otherItems(); of != nil && len(items) < most && !f.smallest {
		unique, _ := s.values["uniqueItems"].(bool)
		for _, raw := range f.items(of, name, in, depth) {
			if len(items) == most {
				break
			}
			if !unique || !slices.Contains(items, raw) {
				items, found = append(items, raw), true
			}
		}
	}
	// Placeholders fill the list up to the required number of items.
	for len(items) < min(s.count("minItems", 0), maxPad) && f.left > 0 {
		raw, _ := f.value(s.otherItems(), name, nil, depth+1)
		if raw == "" {
			return "", false
		}
		items = append(items, raw)
	}
	return "[" + strings.Join(items, ",") + "]", found
}

// items returns the items for a list that the first suitable text contains. A text is suitable if
// it contains at least one item.
func (f *filler) items(of *node, name string, in []*text, depth int) (items []string) {
	resolved := f.resolve(of)
	if kind := resolved.kind(); kind == "array" || kind == "object" {
		return f.itemObjects(of, name, in, depth)
	}
	for _, t := range in {
		// An entry of a labelled list is an item even if it has no known form.
		for _, listed := range t.listed(name) {
			if raw, ok := f.value(of, "", []*text{newText(listed)}, depth+1); ok {
				items = append(items, raw)
			} else if resolved.kind() == "string" && resolved.list("enum") == nil && fits(resolved, listed) {
				items = append(items, write(listed))
			}
		}
		// Without a labelled list, each value in the text is an item, until the values are used up.
		for len(items) < maxItems && f.left > 0 && len(t.listed(name)) == 0 {
			raw, ok := f.value(of, singular(name), []*text{t}, depth+1)
			if !ok || slices.Contains(items, raw) {
				break
			}
			items = append(items, raw)
		}
		if len(items) > 0 {
			return items
		}
	}
	return nil
}

// itemObjects returns an object for each part of the first text that yields at least one object. If
// the data or a tool result contains a list under the name, the objects are taken from that list
// instead.
func (f *filler) itemObjects(of *node, name string, in []*text, depth int) (items []string) {
	objects, open := f.objects, f.open
	for _, v := range f.named(name) {
		list, _ := v.([]any)
		for _, one := range list[:min(len(list), maxItems)] {
			// Each object is smaller than the one that contains it, so the nesting ends.
			f.objects, f.open = []any{one}, map[string]int{}
			if raw, ok := f.value(of, "", nil, depth+1); ok {
				items = append(items, raw)
			}
		}
	}
	f.objects, f.open = objects, open
	if len(items) > 0 {
		return items
	}
	for _, t := range in {
		for _, part := range t.parts() {
			if raw, ok := f.value(of, singular(name), []*text{newItem(part)}, depth+1); ok && len(items) < maxItems {
				items = append(items, raw)
			}
		}
		if len(items) > 0 {
			return items
		}
	}
	return items
}
