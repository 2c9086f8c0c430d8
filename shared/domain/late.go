package domain

import "encoding/json"

// LateRun is a run in a job message: the JSON of a run that is not a row yet. It is sealed with
// SECRETS_KEY for the run's id, because the stream stores messages on disk.
type LateRun struct {
	ID             string          `json:"id"`
	OrganizationID string          `json:"org"`
	AgentID        string          `json:"agent"`
	CallerKind     string          `json:"caller"`
	Principal      string          `json:"principal"`
	SessionID      string          `json:"session"`     // no other run has it
	SessionHash    []byte          `json:"sessionHash"` // queuedb.NewRun.SessionKey
	TriggerType    string          `json:"trigger"`
	AutomationID   string          `json:"automation,omitempty"`
	IdempotencyKey string          `json:"key,omitempty"`
	KeyHash        []byte          `json:"keyHash,omitempty"`
	Fingerprint    []byte          `json:"fingerprint"`
	Input          json.RawMessage `json:"input"`     // JSON of Input
	Retention      int64           `json:"retention"` // seconds
	KeyID          string          `json:"keyId,omitempty"`
}
