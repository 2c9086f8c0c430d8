package openaiapi

import "time"

// Model is an agent or a template as this protocol lists it. Name is an addition of ours, which some clients show.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // model
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Name    string `json:"name"`
}

// NewModel shows an agent or a template; a template was never created.
func NewModel(id, name, owner string, created time.Time) Model {
	m := Model{ID: id, Object: "model", OwnedBy: owner, Name: name}
	if !created.IsZero() {
		m.Created = created.Unix()
	}
	return m
}

// ModelList is the answer to whoever asks for all models.
type ModelList struct {
	Object string  `json:"object"` // list
	Data   []Model `json:"data"`
}

// NewModelList makes a list of models.
func NewModelList(models []Model) ModelList {
	if models == nil {
		models = []Model{}
	}
	return ModelList{Object: "list", Data: models}
}
