// Package parley is the Go client of Parley, the self-hostable service for AI agents.
//
//	client, err := parley.New(parley.Options{}) // PARLEY_API_KEY and PARLEY_BASE_URL
//	run, err := client.Chat.Send(ctx, parley.ChatParams{AgentID: id, Message: "What is 12 * 12?"})
//
// The fields of a Client group its methods as the API groups its resources. The types of requests
// and results are generated from the OpenAPI document (types.go).
//
// Requests that are safe to repeat are retried after a lost connection, and after responses that
// ask for a retry. An interrupted event stream resumes after the last event that was read.
// Client.Call and Client.Events send requests for which there is no method.
//
// Methods return these errors, among others. errors.As and errors.Is find them:
//
//   - *APIError: the service has rejected the request, or has failed.
//   - ErrUnreachable, as a *ConnectionError: no response was received.
//   - *WaitError: ctx has ended while the run continues.
//   - *RunFailedError: the run has no answer. Only Run.Completed and Run.Parse return it.
//
// Contexts limit whole calls, including all retries and pauses. A run is not cancelled when a
// context ends; use Runs.Cancel. The package logs nothing and has no global state.
package parley
