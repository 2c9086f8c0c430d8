package httpx

// Paths of the pages that the links of invitations and password resets lead to.
const (
	AcceptPath = "/accept"
	ResetPath  = "/reset"
)
