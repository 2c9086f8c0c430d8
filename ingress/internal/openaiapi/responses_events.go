package openaiapi

// The types below are the contents of events of a response. Type and sequence number are added when
// an event is written.

// responseEvent is the content of an event with the whole response.
type responseEvent struct {
	Response *Response `json:"response"`
}

// itemEvent contains an item and its index in the output.
type itemEvent struct {
	OutputIndex int  `json:"output_index"`
	Item        Item `json:"item"`
}

// progressEvent reports the progress of a tool call.
type progressEvent struct {
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
}

// inputDeltaEvent contains a piece of the code or of the arguments of a call.
type inputDeltaEvent struct {
	progressEvent
	Delta string `json:"delta"`
}

// codeEvent contains the whole code of a call.
type codeEvent struct {
	progressEvent
	Code string `json:"code"`
}

// argumentsEvent contains all arguments of a call.
type argumentsEvent struct {
	progressEvent
	Arguments string `json:"arguments"`
}

// functionDoneEvent contains the name and all arguments of a call that the client must make.
type functionDoneEvent struct {
	argumentsEvent
	Name string `json:"name"`
}

// partRef identifies the message's only part, which contains its text. ContentIndex is always 0.
type partRef struct {
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
}

// partEvent contains the part of the message with its text. The text is empty in the first event
// and complete in the last.
type partEvent struct {
	partRef
	Part textPart `json:"part"`
}

// deltaEvent contains a piece of the text.
type deltaEvent struct {
	partRef
	Delta    string     `json:"delta"`
	Logprobs []struct{} `json:"logprobs"`
}

// doneEvent contains the whole text of the message.
type doneEvent struct {
	partRef
	Text     string     `json:"text"`
	Logprobs []struct{} `json:"logprobs"`
}

// annotationEvent contains a citation and its index in the list of annotations.
type annotationEvent struct {
	partRef
	AnnotationIndex int        `json:"annotation_index"`
	Annotation      annotation `json:"annotation"`
}

// errorEvent contains the error twice: in the documented form, and in the form that client
// libraries recognize and raise as an exception.
type errorEvent struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Error   Error   `json:"error"`
}
