package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestQuestions(t *testing.T) {
	t.Parallel()
	lamps := strings.Repeat("The lamp in the corner is switched off by touching its metal shade twice. ", 8)
	doors := strings.Repeat("A wooden door closes more slowly whenever the weather outside is humid. ", 8)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "house.md"), []byte("# House\n\nShort.\n\n## Lamps\n\n"+lamps+"\n\n## Doors\n\n"+doors), 0o600); err != nil {
		t.Fatal(err)
	}
	documents, err := readDocuments(dir)
	if err != nil || len(documents) != 1 || len(documents[0].Sections) != 2 {
		t.Fatalf("documents are %+v: %v", documents, err)
	}

	questions := ask(documents, 3, 1)
	if len(questions) != 6 || !reflect.DeepEqual(questions, ask(documents, 3, 1)) || reflect.DeepEqual(questions, ask(documents, 3, 2)) {
		t.Errorf("questions are %+v", questions)
	}
	for n, q := range questions {
		known := 0
		for word := range strings.FieldsSeq(q.Text) {
			if strings.Contains(strings.ToLower(q.Section), word) {
				known++
			}
		}
		if n%2 == 0 && known != questionWords || known < questionWords-1 {
			t.Errorf("%q has %d words of its section", q.Text, known)
		}
	}
	if q := questions[0]; !q.answeredBy("# Lamps\n\n"+strings.ReplaceAll(lamps, " ", "\n ")) || q.answeredBy(doors) || q.answeredBy("lamp corner") {
		t.Error("a passage that does not answer the question was accepted")
	}
	if _, err := readDocuments(t.TempDir()); err == nil {
		t.Error("an empty directory was accepted")
	}
}
