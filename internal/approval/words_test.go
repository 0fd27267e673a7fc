package approval

import (
	"strings"
	"testing"
)

// What is said in answer to a question. Everything not listed as a yes or a no
// leaves the question open.
var (
	saidYes = lines(`
		yes
		Yes.
		YES!
		yep
		yeah
		Yup!!
		y
		Y
		approve
		approved
		Approved!
		approving
		confirm
		confirmed
		Confirmed.
		go ahead
		Go ahead!
		goahead
		proceed
		ok
		OK
		Ok.
		okay
		do it
		run it
		sounds good
		lgtm
		LGTM!
		sure
		allowed
		granted
		yes please
		Yes, please!
		yes, go ahead
		yes - do it
		ok do it
		ok, run it now
		okay, go ahead and run it
		sure, go ahead
		yes, delete it
		go ahead and run it, please
		go ahead, thanks
		approved, thank you
		approved by me
		approve it
		I approve
		I approve this
		I confirm
		I agree
		I'm sure
		I am sure, go ahead
		yes yes yes
		yes, that's fine
		yes that is fine with me
		yes, this one
		yes, just this once
		ok, once
		ok, only once
		ok iris
		iris, yes
		hey iris, go ahead
		@iris yes
		please do
		please proceed
		please, go ahead
		yes, run the command
		run the command
		execute it
		execute the command now
		run this
		do that
		you may
		you can run it
		you may run it now
		looks good
		looks good, go ahead
		all good, proceed
		good to go
		good to go, thanks
		of course
		absolutely
		definitely, go ahead
		certainly
		affirmative
		agreed
		agreed, do it
		yes, you have my permission
		ok, permission granted
		hmm, ok
		well, yes
		thanks, go ahead
		alright, do it
		perfect, proceed
		yes 👍
		ok ✅
		go ahead 👍🏽 🚀
		go ahead…
		"yes"
		*yes*
		_approved_
		  yes
		yes, force push it
		yes, push it
		ok wipe it
		yes, restart it
		ok, format it
		yes, remove them all
		yes, and tell me the result
		go ahead and report back
		run it and show me the output
		yes! do it! now!
		yes, the exact command
		yes, exactly this command
		allow it
		allow
		grant
		go for it
		do it now
		do it, right now
		ok then
		okay then, proceed
		yes mate
		k
		okey`)

	saidNo = lines(`
		no
		No.
		NO!
		nope
		nah
		n
		no way
		no, thanks
		no thank you
		don't
		don’t
		dont do it
		do not
		do not run it
		Don't run that
		never
		not now
		not yet
		not ok
		stop
		Stop it
		cancel
		cancel it
		cancel that
		decline
		declined
		I decline
		deny
		denied
		reject
		rejected
		refuse
		abort
		negative
		please don't
		Please don't do that
		absolutely not
		definitely not
		of course not
		you may not
		you can't
		better not
		rather not
		forget it
		leave it
		skip it
		hmm, no
		actually no
		well, don't
		no, use the staging database
		no, list the files first
		ok, but don't
		ok but do not
		ok no
		yes... no
		sure? no
		yes? No.
		yes, no, cancel
		yes, but not this one
		ok, never
		ok, cancel it
		sure, not
		yes but don't run it on the server
		go ahead - no, stop
		approved? no
		I said no
		iris, no
		no! ❌
		okay, don't do it
		not approved
		not allowed`)

	saidNeither = lines(`
		ok so what is this?
		ok so what is this
		yes?
		ok?
		sure?
		no?
		really?
		yes or no?
		yes or no
		is that ok?
		ok or not?
		ok, why?
		ok, why
		okay, what does it do?
		yes, but what does it delete
		yes if it is safe
		yes, if the backup is done
		ok, when the backup is done
		ok, after lunch
		yes, later
		yes tomorrow
		ok, wait
		ok wait a moment
		ok, let me think
		ok, let me check first
		ok, I will do it myself
		yes, but only on staging
		yes, but use --dry-run
		yes, with -n
		ok, here is the log
		ok now list the files
		okay, next: the weather
		yes, I saw it
		yes I know
		yes and no
		yeah, right
		sure, I guess
		sure, maybe
		ok maybe
		probably yes
		maybe
		perhaps
		I think so
		I think yes
		I guess yes
		not sure
		I'm not sure
		no idea
		no idea what that is
		no problem
		no worries
		no rush
		no question
		no objection
		why not
		why not?
		sure, why not
		ok, no problem
		wait
		hold on
		hmm
		thanks
		thank you
		great
		perfect
		alright
		approve the pull request of Anna
		approve the PR
		confirm the date with Bob
		confirm that it is safe
		confirmation
		allowed paths are /tmp and /var
		run it with --dry-run
		run it on the other machine
		do it like this: ls
		proceed with the plan for tomorrow
		yesterday
		yesss
		okra
		surely
		assure me
		nothing
		now
		note this
		november
		what is this?
		what does the command do
		list the files
		/etc
		the answer is yes
		he said yes
		"yes" is what he said
		they approved it
		I would say yes
		can you say yes
		say yes
		do I have to say yes
		please explain
		please list the files
		?
		!
		...
		👍
		👎
		ok 👎
		yes 🙄
		yes ❌
		yes ✋
		ok <b>
		yes; rm -rf /tmp/x
		yes $(reboot)
		yes > file
		yes | tee
		[x] yes
		ja
		ja, mach das
		jawohl
		nein
		oui
		non
		sí
		si
		да
		нет
		はい
		いいえ
		是
		不
		vale
		claro
		d'accord
		ok, mach das
		ok, vas-y
		sure, dale
		okay aber nicht jetzt
		tamam
		evet`)
)

func lines(text string) (all []string) {
	for l := range strings.SplitSeq(text, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			all = append(all, l)
		}
	}
	return all
}

// TestAffirms holds the words of spec §5.4, negations, hedges, questions and
// other languages against what they mean.
func TestAffirms(t *testing.T) {
	n := 0
	for _, group := range []struct {
		texts   []string
		yes, no bool
	}{
		{saidYes, true, false},
		{saidNo, false, true}, {saidNeither, false, false}, {[]string{"", " \n\t", strings.Repeat("yes ", 50) + "unless it rains"}, false, false},
	} {
		for _, text := range group.texts {
			n++
			if yes, no := Affirms(text); yes != group.yes || no != group.no {
				t.Errorf("Affirms(%q) = %v, %v, want %v, %v", text, yes, no, group.yes, group.no)
			}
		}
	}
	if n < 150 {
		t.Errorf("%d cases", n)
	}
}

// Whatever is added to a yes, it is one only while every word is known.
func TestNothingUnknownIsConsent(t *testing.T) {
	for _, text := range saidYes {
		for _, more := range []string{" xyzzy", " on staging", " but wait", " unless", " if", "?", " -n", " \U0001F44E"} {
			if yes, _ := Affirms(text + more); yes {
				t.Errorf("Affirms(%q) is a yes", text+more)
			}
		}
	}
}

func TestPhrasesFit(t *testing.T) {
	for _, m := range []map[string]bool{affirmations(), fillers(), refusals(), neither()} {
		for p := range m {
			if n := len(strings.Fields(p)); n > maxPhrase {
				t.Errorf("%q has %d words, more than %d", p, n, maxPhrase)
			}
		}
	}
}

func FuzzAffirms(f *testing.F) {
	for _, s := range []string{"yes", "ok, but don't", "sure? no", "да", "yes\u2019\u2019", "\xff?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		yes, no := Affirms(text)
		if yes && no {
			t.Fatalf("Affirms(%q) is both", text)
		}
		if again, _ := Affirms(text + "?"); again {
			t.Fatalf("Affirms(%q) is a yes with a question mark", text+"?")
		}
	})
}
