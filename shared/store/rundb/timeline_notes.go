package rundb

// Reasons why an attempt ended without ending its run.
const (
	EndedLost   = "its worker was lost"
	EndedBack   = "its worker gave the run back"
	EndedParked = "it needs a person's decision"
)
