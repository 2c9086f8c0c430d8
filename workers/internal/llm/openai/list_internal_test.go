package openai

import "testing"

// The list of OpenAI's own service also contains models that cannot answer chats.
func TestModelsThatAnswerChats(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"gpt-5-mini": true, "gpt-4.1": true, "o3": true, "o4-mini": true, "chatgpt-4o-latest": true,
		"gpt-4o-transcribe": false, "gpt-realtime": false, "gpt-image-1": false, "tts-1": false, "whisper-1": false,
		"text-embedding-3-small": false, "omni-moderation-latest": false, "gpt-3.5-turbo-instruct": false,
	} {
		if answersChats(name) != want {
			t.Errorf("%s answers chats: %v", name, !want)
		}
	}
}
