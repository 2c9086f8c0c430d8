package contract_test

import (
	"bytes"
	"testing"

	"parley/shared/contract"
	"parley/shared/domain"
)

func TestEventMessagesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, chunk := range []domain.EventChunk{
		{Fence: 1, First: 2, Lines: []byte("message.delta {\"text\":\"a\"}\nmessage.delta {\"text\":\"b\"}\n")},
		{Fence: 9_000_000_000, First: 70_000}, // a notice without events
	} {
		got, err := contract.ParseEventMessage(contract.EventMessage(chunk))
		if err != nil || got.Fence != chunk.Fence || got.First != chunk.First || !bytes.Equal(got.Lines, chunk.Lines) {
			t.Errorf("%+v became %+v, %v", chunk, got, err)
		}
	}
	for _, broken := range []string{"", "1 2", "12\n", "1 \n", " 1\n", "0 1\n", "1 0\n", "-1 2\n", "1 2 3\n", "a b\n", "9223372036854775808 1\n"} {
		if got, err := contract.ParseEventMessage([]byte(broken)); err == nil {
			t.Errorf("%q was taken for %+v", broken, got)
		}
	}
}

func FuzzEventMessage(f *testing.F) {
	for _, seed := range []string{"1 2\nmessage.delta {}\n", "1 2\n", "", "1 2", "0 0\n", "1  2\n", "\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		chunk, err := contract.ParseEventMessage(body)
		if err != nil {
			return
		}
		again, err := contract.ParseEventMessage(contract.EventMessage(chunk))
		if err != nil || again.Fence != chunk.Fence || again.First != chunk.First || !bytes.Equal(again.Lines, chunk.Lines) {
			t.Errorf("%q became %+v, %v", body, again, err)
		}
		_, _ = chunk.Events() // must not panic, whatever the input is
	})
}
