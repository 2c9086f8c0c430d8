package openaiapi

// The types below contain the fields of a response's events, in addition to type and sequence number.

// responseEvent has the whole response.
type responseEvent struct {
	Response *Response `json:"response"`
}

// itemEvent has an item and its index in the output.
type itemEvent struct {
	OutputIndex int  `json:"output_index"`
	Item        Item `json:"item"`
}

// progressEvent reports the progress of a tool call.
type progressEvent struct {
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
}

// inputDeltaEvent has a piece of a call's code or arguments.
type inputDeltaEvent struct {
	progressEvent
	Delta string `json:"delta"`
}

// codeEvent has the whole code of a call.
type codeEvent struct {
	progressEvent
	Code string `json:"code"`
}

// argumentsEvent has all arguments of a call.
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

// partEvent has the text part, empty at its start and complete at its end.
type partEvent struct {
	partPlace
	Part textPart `json:"part"`
}

// deltaEvent has a piece of the text.
type deltaEvent struct {
	partPlace
	Delta    string     `json:"delta"`
	Logprobs []struct{} `json:"logprobs"`
}

// doneEvent has the whole text.
type doneEvent struct {
	partPlace
	Text     string     `json:"text"`
	Logprobs []struct{} `json:"logprobs"`
}

// annotationEvent has a citation and its index.
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
