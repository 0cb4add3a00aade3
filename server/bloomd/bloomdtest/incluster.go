package bloomdtest

import (
	"bytes"
	"regexp"
	"slices"
)

var (
	storageOfInfo = regexp.MustCompile(`(?m)^storage \d+$`)
	storageOfList = regexp.MustCompile(`(?m)^(\S+ \d\.\d{6}) \d+ (\d+ \d+)$`)
	inMemory      = regexp.MustCompile(`^create (\S+) .*in_memory=0*1\b`)
)

// InCluster returns an answer without the sizes of filters, which differ in a cluster.
func InCluster(answer []byte) []byte {
	return storageOfList.ReplaceAll(storageOfInfo.ReplaceAll(answer, []byte("storage *")), []byte("$1 * $2"))
}

// InCluster returns the script as a cluster answers it: filters in memory only are refused, so requests about them are left out.
func (s Script) InCluster() (out Script) {
	var refused [][]byte
	for _, step := range s {
		if !step.isRequest() {
			continue
		}
		words := bytes.Fields(step.Line)
		isOf := func(word int) bool {
			return len(words) > word && slices.ContainsFunc(refused, func(name []byte) bool { return bytes.Equal(name, words[word]) })
		}
		switch m := inMemory.FindSubmatch(step.Line); {
		case m != nil && string(step.Answer) == "Done\n":
			refused = append(refused, bytes.Clone(m[1]))
			step.Answer = []byte("Client Error: Bad arguments\n")
		case isOf(1):
			continue
		default:
			step.Answer = InCluster(step.Answer)
			for _, name := range refused {
				step.Answer = regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(string(name))+` .*\n`).ReplaceAll(step.Answer, nil)
			}
		}
		out = append(out, step)
	}
	return out
}
