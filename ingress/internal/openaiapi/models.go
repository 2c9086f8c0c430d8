package openaiapi

import "time"

// Model is an agent or a template in the list of models. Its field Name is an addition to the
// protocol that some clients display.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // always model
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Name    string `json:"name"`
}

// NewModel renders an agent or a template. The argument created is zero for templates, and owner is
// shown as owned_by. The field Created is in seconds since 1970.
func NewModel(id, name, owner string, created time.Time) Model {
	m := Model{ID: id, Object: "model", OwnedBy: owner, Name: name}
	if !created.IsZero() {
		m.Created = created.Unix()
	}
	return m
}

// ModelList is the list of all models.
type ModelList struct {
	Object string  `json:"object"` // always list
	Data   []Model `json:"data"`
}

// NewModelList returns a list of models. The data is never null.
func NewModelList(models []Model) ModelList {
	if models == nil {
		models = []Model{}
	}
	return ModelList{Object: "list", Data: models}
}
