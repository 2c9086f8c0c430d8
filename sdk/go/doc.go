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
package parley
