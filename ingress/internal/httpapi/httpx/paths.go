package httpx

// The paths of the pages to which invitation links and password reset links lead.
const (
	AcceptPath = "/accept"
	ResetPath  = "/reset"
)
