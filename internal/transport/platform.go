package transport

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// A Platform is the way out of a chat transport: what a delivery.Courier calls
// to show conversations there. The courier owns what is said, when, in which
// order, how often it is tried and what is on disk; the platform owns how it
// looks and how its wire works.
//
// Implementations must
//   - make one attempt per call: no retries, no queue, no pause of their own,
//     also not those of a client library;
//   - report success only with the platform's own answer, and every failure as a
//     *SendError; another error counts as Unreachable with Maybe set;
//   - return when ctx ends;
//   - be safe for concurrent use; the courier makes one call at a time per
//     Place.Chat.
//
// deliverytest checks these.
type Platform interface {
	// Name is the word used in logs, metrics and the path of the outbox.
	Name() string
	// Traits never change.
	Traits() Traits

	// Place says where a turn of a conversation is shown; ok is false when it is
	// not shown on this platform. a is nil for what belongs to no turn, and for
	// the question whether the conversation is of any interest. It is called for
	// every record of the journal: it must be quick and do no I/O.
	Place(conv chat.Address, a *turn.Accepted) (p Place, ok bool)

	// Render turns something to show into what is sent: one Body per message, in
	// order, at least one. It is pure. No limit of the platform is exceeded,
	// counted as the platform counts, with room for RepeatLabel left; nothing of
	// the text is lost or added but for the marks that keep a split code block a
	// code block; nobody is mentioned by what a model wrote.
	Render(v View) []Body

	// Post sends one new message and returns its id.
	Post(ctx context.Context, p Place, m Outgoing) (id string, err error)
	// Edit replaces a message. A message that says this already is a success;
	// one that is not there is Gone.
	Edit(ctx context.Context, p Place, id string, m Outgoing) error
	// Delete removes a message. One that is not there is a success or Gone.
	Delete(ctx context.Context, p Place, id string) error
	// Upload sends a file and returns the id of its message, or of the file
	// where there is none.
	Upload(ctx context.Context, p Place, f Upload) (id string, err error)
	// Find looks whether a message with this mark is there, among those sent
	// since a moment: its id, or ErrNotThere, or ErrCannotTell.
	Find(ctx context.Context, p Place, m Mark, since time.Time) (id string, err error)
}

// Traits are what a courier needs to know of a platform.
type Traits struct {
	// MaxChars is about what one message holds, in the platform's counting. A
	// part that is refused as TooLong is tried at a half and a quarter of it.
	MaxChars int
	// Pace is how fast one chat takes calls. nil: DefaultPace everywhere.
	Pace func(Place) Pace
	// PerSecond is how many calls all chats together make: 20.
	PerSecond int
	// Fresh says when a reply does not replace the placeholder but comes as a
	// new message, and the placeholder is deleted.
	Fresh Fresh
	// RestInThread puts the second and later parts of a reply into the thread of
	// the first (its id is the thread's), and a turn's files, questions and
	// details into the thread of its placeholder, unless the place is in a
	// thread already.
	RestInThread bool
	// NoFiles says that Upload always fails; what would be a file is named in a
	// line of text.
	NoFiles bool
	// Preview shows the text a turn has said so far in its placeholder, above
	// the line of progress.
	Preview bool
}

// Pace bounds the calls of one chat: one every Gap, and Burst of them at once
// after a rest.
type Pace struct {
	Gap   time.Duration
	Burst int
}

// DefaultPace is what all known platforms take of one chat without complaint.
var DefaultPace = Pace{Gap: time.Second, Burst: 3}

// Fresh says when a reply comes as a new message.
type Fresh int

// The choices.
const (
	// FreshNever: the reply always replaces the placeholder.
	FreshNever Fresh = iota
	// FreshAfterOwn: it is new if Iris has sent something else there since.
	FreshAfterOwn
	// FreshAfterAny: it is new if anybody has.
	FreshAfterAny
)

// A Place is where on a platform something is shown, in the platform's own
// words. Chat is what the platform limits the rate of, Thread a part of it.
type Place struct {
	Chat   string `json:"chat"`
	Thread string `json:"thread,omitempty"`
}

// A Showing says what a View is.
type Showing string

// The showings.
const (
	ShowProgress Showing = "progress" // the placeholder: Note is the line, Text the preview
	ShowReply    Showing = "reply"    // how a turn ended
	ShowNotice   Showing = "notice"   // what Iris says by herself
	ShowQuestion Showing = "question" // Ask, with buttons while it is open
	ShowDetail   Showing = "detail"   // a tool call, where people asked to see them
)

// A View is something to show.
type View struct {
	Show Showing
	// Text is Markdown as a model wrote it.
	Text string
	// Note is one plain line without markup, drawn emphasised below the text, or
	// alone: the progress, or why there is no more. A placeholder is drawn so
	// that people see that something goes on ("_Thinking_ ...").
	Note string
	// Ask is the question; buttons are drawn while its Outcome is empty.
	Ask *turn.Ask
	// Buttons are drawn below the last message, in order, at most MaxButtons.
	Buttons []Button
	// Limit, when not 0, is a smaller MaxChars: the platform has refused more.
	Limit int
	// Plain asks for no formatting at all: the platform has refused some.
	Plain bool
}

// A Button below a message. A press of it comes to Inbox.Answer with the Value as
// the Ask, yes, and where and by whom it was pressed.
type Button struct {
	Label string // the first MaxLabel bytes of it are drawn
	Value string // of letters, digits and dots, at most 48 bytes
}

// MaxButtons and MaxLabel are what every platform takes.
const (
	MaxButtons = 25
	MaxLabel   = 72
)

// Cut is the label as it is drawn.
func (b Button) Cut() string {
	if len(b.Label) <= MaxLabel {
		return b.Label
	}
	return strings.ToValidUTF8(b.Label[:MaxLabel-len("…")], "") + "…"
}

// A Pinner is a Platform that can put a message before the others of a chat. One
// that is pinned already is a success; one that is not there is Gone, and a chat
// in which Iris may not do it is Refused.
type Pinner interface {
	Pin(ctx context.Context, p Place, id string) error
}

// A Body is one message as Render made it. It is kept on disk until it is sent.
type Body struct {
	// Text is what is sent.
	Text string `json:"text"`
	// Format and Extra are the platform's own: a parse mode, blocks, a keyboard.
	Format string `json:"format,omitempty"`
	Extra  []byte `json:"extra,omitempty"`
	// Source and Note are the piece of View.Text, and the View.Note, that this
	// message shows: if it is refused they are rendered again, differently.
	Source string `json:"source,omitempty"`
	Note   string `json:"note,omitempty"`
}

// An Outgoing is a message on its way.
type Outgoing struct {
	Body Body
	// Mark is kept with the message where the platform can keep data.
	Mark Mark
	// Repeat asks for RepeatLabel as the first line: the message may be there
	// already.
	Repeat bool
}

// RepeatLabel tells people that they may be reading something twice.
const RepeatLabel = "(Possibly a repeat: the connection broke while this was sent.)"

// A Mark names a message for ever: no two messages have the same one.
type Mark struct {
	Turn turn.ID `json:"turn,omitempty"`
	// Part is "0" for the placeholder, "1" and up for the reply, "file.3/1" and
	// the like for the rest. Of letters, digits, dots, dashes and slashes, at
	// most 200 bytes.
	Part string `json:"part"`
}

// An Upload is a file on its way.
type Upload struct {
	// Name is what people see; data from outside that holds no separator.
	Name  string
	Title string
	Size  int64
	// Open returns the content; the platform closes it.
	Open func() (io.ReadCloser, error)
	Mark Mark
	// Repeat asks for RepeatLabel beside the file.
	Repeat bool
}
