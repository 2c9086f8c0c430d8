package domain

// ModelList contains the models that agents can use.
type ModelList struct {
	Default string   `json:"default"` // of agents without a model
	Models  []string `json:"models"`  // as agents name them: those of each configured provider
}
