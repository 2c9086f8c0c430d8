package openai

import (
	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/openaiapi"
)

// attachments converts the images and files of a request to attachments of its run.
func attachments(list []openaiapi.Attached) []dispatch.Attachment {
	var out []dispatch.Attachment
	for _, a := range list {
		out = append(out, dispatch.Attachment{
			Field: a.Field, Exact: true, FileID: a.FileID, URL: a.URL, Data: a.Data, MediaType: a.MediaType, Name: a.Name,
		})
	}
	return out
}
