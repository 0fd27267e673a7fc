package approval

import (
	"strings"
	"sync"
	"unicode"
)

// Affirms reads an answer. yes: the text says yes and nothing else; no: it says
// no, or takes its yes back. Neither: it asks, hedges, names a condition or a
// later time, is about something else, or is in a language that is not English;
// the question then stays open.
//
// A yes begins with a word of affirmation and consists of known words
// throughout: what is not understood is never consent. A no is easier to give:
// it begins with a word of refusal, or has one after a yes.
func Affirms(text string) (yes, no bool) {
	tokens, ok := tokenize(text)
	words := tokens
	rest, affirms := cut(words, affirmations())
	for !affirms && !refuses(words) && len(words) > 0 && opening()[words[0]] {
		words = words[1:]
		rest, affirms = cut(words, affirmations())
	}
	switch {
	case len(words) == 0:
		return false, false
	case affirms:
		switch refused, asks := scan(rest); {
		case refused:
			return false, true
		case asks || !ok:
			return false, false
		}
		return known(rest), false
	case refuses(words):
		_, asks := scan(words)
		return false, !asks
	}
	return false, false
}

// known reports whether words say nothing beyond a yes.
func known(words []string) bool {
	for len(words) > 0 {
		if rest, ok := cut(words, affirmations()); ok {
			words = rest
		} else if rest, ok := cut(words, fillers()); ok {
			words = rest
		} else {
			return false
		}
	}
	return true
}

// scan looks for what spoils a yes: a refusal that is not asked for, a question.
func scan(words []string) (refused, asks bool) {
	for i := 0; i < len(words); i++ {
		if _, ok := cut(words[i:], neither()); ok {
			return false, true
		}
		switch {
		case words[i] == "?":
			// "sure? no" is a no; "no?" is none.
			refused, asks = false, true
		case negations()[words[i]]:
			refused = true
		}
	}
	return refused, asks
}

// refuses reports whether words begin with a refusal.
func refuses(words []string) bool {
	if _, ok := cut(words, neither()); ok {
		return false
	}
	_, ok := cut(words, refusals())
	return ok
}

// cut takes the longest of the phrases off the front of words.
func cut(words []string, phrases map[string]bool) (rest []string, ok bool) {
	for n := min(maxPhrase, len(words)); n > 0; n-- {
		if phrases[strings.Join(words[:n], " ")] {
			return words[n:], true
		}
	}
	return words, false
}

// maxPhrase is the length in words of the longest phrase below.
const maxPhrase = 6

// tokenize cuts a text into lower-case words; "?" is a word, other punctuation
// is dropped. ok is false if there is something that is neither: a quotation, a
// symbol that may mean anything.
func tokenize(text string) (words []string, ok bool) {
	ok = true
	var w strings.Builder
	flush := func() {
		if w.Len() > 0 {
			words = append(words, w.String())
			w.Reset()
		}
	}
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.Is(unicode.M, r) && !joiner(r):
			w.WriteRune(r)
		case r == '\'' || r == '\u2019':
			if w.Len() > 0 {
				w.WriteByte('\'')
			}
		case unicode.IsSpace(r), strings.ContainsRune(".,!;:-_*~()\u2013\u2014\u2026\"", r):
			flush()
		case r == '?' || r == '\u00bf' || r == '\uff1f' || r == '\u203d':
			flush()
			words = append(words, "?")
		case strings.ContainsRune("\U0001F44D\u2705\u2714\U0001F64F\U0001F680\U0001F44C\U0001F642\U0001F60A\U0001F600", r), joiner(r):
			flush() // goes with a yes
		case r == '@':
			flush()
		default:
			flush()
			ok = false
		}
	}
	flush()
	return words, ok
}

// joiner reports runes that only change how the emoji before them looks.
func joiner(r rune) bool { return r == '\ufe0f' || r >= '\U0001F3FB' && r <= '\U0001F3FF' }

// set makes a set of phrases when it is first asked for.
func set(phrases string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		m := map[string]bool{}
		for p := range strings.SplitSeq(phrases, "|") {
			m[strings.Join(strings.Fields(p), " ")] = true
		}
		return m
	})
}

var (
	// opening may come before an answer.
	opening = set("please|hi|hey|hello|iris|um|uh|hmm|hm|ah|oh|well|alright|right|great|perfect|thanks|actually")

	// affirmations are a yes.
	affirmations = set(`yes|yep|yeah|yup|y|approve|approved|approves|approving|confirm|confirmed|confirms|confirming|
		go ahead|goahead|go for it|proceed|ok|okay|okey|k|do it|do that|do so|run it|run that|run this|run the command|execute it|execute the command|sounds good|sounds great|looks good|
		lgtm|sure|allowed|allow|allow it|granted|grant|agreed|i agree|i approve|i confirm|i allow it|i'm sure|i am sure|
		yes please|please do|please proceed|please go ahead|all good|good to go|you may|you can|you may run it|you can run it|affirmative|absolutely|definitely|of course|certainly`)

	// fillers say nothing that a yes does not.
	fillers = set(`please|thanks|thank you|thx|ty|thank you very much|thanks a lot|iris|now|right now|right away|immediately|straight away|asap|
		then|and|so do it|so go ahead|just|it|it's|it is|that|that's|that is|this|this is|the command|this command|that command|the exact command|exactly|
		is|fine|good|great|perfect|cool|that's right|that is right|correct|with me|by me|from me|from my side|for me|on my side|for this|for that|
		once|one time|just once|only once|this once|this time|just this once|this one|that one|
		go|to go|run|run the command|run this command|execute|execute it|delete|delete it|delete that|delete them|delete all|delete everything|remove it|remove that|remove them|
		wipe it|drop it all|destroy it|format it|push it|force push it|push|kill it|restart it|apply it|ship it|
		the|all|all of it|all of them|everything|them|these|those|request|action|file|files|folder|directory|script|branch|disk|
		and tell me the result|and show me the output|and tell me how it went|and report back|and let me know|let me know|report back|tell me the result|show me the output|
		i'm fine with that|i am fine with that|works for me|fine by me|you have my approval|you have my permission|permission|permission granted|my approval|
		my friend|mate|team|man|dear|very much|a lot|indeed|sir|again`)

	// refusals are a no at the front of a text.
	refusals = set(`no|nope|nah|n|no way|don't|dont|do not|never|not now|not yet|not this time|not ok|not okay|not allowed|not approved|stop|cancel|cancel it|cancel that|
		decline|declined|declining|deny|denied|denying|reject|rejected|rejecting|refuse|refused|abort|negative|
		i don't approve|i do not approve|i decline|i refuse|i said no|better not|rather not|forget it|leave it|skip it|please don't|absolutely not|definitely not|
		of course not|certainly not|you may not|you can't|you cannot`)

	// negations take back a yes wherever they come.
	negations = set(`no|nope|nah|not|don't|dont|never|cancel|stop|decline|declined|deny|denied|reject|rejected|refuse|refused|abort|
		can't|cannot|won't|shouldn't|mustn't|isn't|aren't|doesn't|nevermind|without`)

	// neither make a text no answer at all.
	neither = set(`no problem|no worries|no idea|no clue|no rush|no hurry|no doubt|no question|no objection|no objections|no matter|no one|no thanks needed|
		not sure|not certain|not bad|not only|not necessarily|why not|or not|yes or no|ok or not|if not|whether or not|or no|and no|stop by|not clear|no longer|never mind the`)
)
