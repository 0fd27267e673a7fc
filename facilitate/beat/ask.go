package beat

import "embed"

//go:embed ask/*.md
var asks embed.FS

// A Name is a beat.
type Name string

// The beats.
const (
	RoomBeat   Name = "room"
	PersonBeat Name = "person"
	SelfBeat   Name = "self"
	SayBeat    Name = "say"
	Whisper    Name = "whisper"
)

// System is the system text of a beat under a policy's words.
func System(policy string, n Name) string {
	own, err := asks.ReadFile("ask/" + string(n) + ".md")
	if err != nil {
		return policy
	}
	return policy + "\n\n" + string(own)
}
