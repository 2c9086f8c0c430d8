package httpx

// Paths of the pages that invitation links and password reset links lead to.
const (
	AcceptPath = "/accept"
	ResetPath  = "/reset"
)
