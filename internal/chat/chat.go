// Package chat holds the nouns of what comes in: where a conversation is seen
// (Address), who speaks (Person), what was said (Message) and the files that
// came with it (File). It does no I/O and imports nothing of ours; read it
// together with package turn before anything else.
//
// An Address is a comparable value. Its channel id, the string that names a
// conversation on disk and on the wire (SESSION-…, WEBUI-…, tg-…, C…), is made
// by [Address.Channel] and parsed by [Parse], and nowhere else: no other code
// looks at the prefix of such a string.
package chat

import "time"

// A Person is the author of a message as the transport recorded it.
type Person struct {
	// ID is the platform's stable id ("U024BE7LH", "api"). It is data from
	// outside and never becomes a file name.
	ID string `json:"id"`
	// Name is the handle, Display the full name. Both may be empty.
	Name    string `json:"name,omitempty"`
	Display string `json:"display,omitempty"`
	// Bot reports that the author is a program and not a person.
	Bot bool `json:"bot,omitempty"`
}

// A Message is something that was said to Iris, or near her.
type Message struct {
	// ID is the platform's own id of the message, unique within an Address.
	// Submitting the same ID to the same Address twice yields one turn.
	ID   string `json:"id"`
	From Person `json:"from"`
	// Text is what routing and the model see.
	Text string `json:"text"`
	// Prompt, when not empty, is given to the model instead of Text: it may
	// add context such as a quoted message. The log keeps Text.
	Prompt string    `json:"prompt,omitempty"`
	Files  []File    `json:"files,omitempty"`
	At     time.Time `json:"at"`
	// Thread is the platform's id of the thread it was said in, where that is
	// not part of the Address; empty: at the top level.
	Thread string `json:"thread,omitempty"`
}

// A File is an attachment at rest in the workspace.
type File struct {
	// Original is the name the sender gave it: data, shown but never opened.
	Original string `json:"original"`
	// Local is the path relative to the workspace, with forward slashes.
	Local string `json:"local"`
	// Missing says why the file could not be had ("download failed");
	// empty means it is there.
	Missing string `json:"missing,omitempty"`
}
