package openaiapi

// The types below contain the fields of a response's events, in addition to type and sequence number.

type responseEvent struct {
	Response *Response `json:"response"`
}

type itemEvent struct {
	OutputIndex int  `json:"output_index"`
	Item        Item `json:"item"`
}

// progressEvent reports the progress of a tool call.
type progressEvent struct {
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
}

type inputDeltaEvent struct {
	progressEvent
	Delta string `json:"delta"`
}

type codeEvent struct {
	progressEvent
	Code string `json:"code"`
}

type argumentsEvent struct {
	progressEvent
	Arguments string `json:"arguments"`
}

type functionDoneEvent struct {
	argumentsEvent
	Name string `json:"name"`
}

// partPlace identifies the text, which is the only part of the message.
type partPlace struct {
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
}

type partEvent struct {
	partPlace
	Part textPart `json:"part"`
}

type deltaEvent struct {
	partPlace
	Delta    string     `json:"delta"`
	Logprobs []struct{} `json:"logprobs"`
}

type doneEvent struct {
	partPlace
	Text     string     `json:"text"`
	Logprobs []struct{} `json:"logprobs"`
}

type annotationEvent struct {
	partPlace
	AnnotationIndex int        `json:"annotation_index"`
	Annotation      annotation `json:"annotation"`
}

// errorEvent contains the error twice: in the documented form, and in the form that makes clients
// raise an error.
type errorEvent struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Error   Error   `json:"error"`
}
