package rehearsal

import "testing"

// A pattern that is wrong would panic in front of a person.
func TestPatternsCompile(t *testing.T) {
	all := []*pattern{
		mention, polite, thanks, greeting, gratias, farewell, helping, modelAsk, again, useTool, toolsAsk, sumUp, yes, no, heldText, runWord, tryWord, span, blocks, between, sentence, andNext, shellish, scriptAt, plainArg, bringUp, places, bigness, counting, whatIn, inPlace, noPlace, severally, listComma, attaching, writeLast, writeHead, creating, touching, making, adding, editFirst, editLast, editAlone, removing, extension, wellKnown, fenced, lsLine, duLine, dynamicBlock, stamp, event, trailing, then, andIt, pronoun, interval, weekly, clock, once, wakeWord,
	}
	all = append(all, reading...)
	for _, q := range questions {
		all = append(all, q.ask)
	}
	for _, p := range all {
		p.re()
	}
}
