package slacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// tags are what may stand between < and > in a text that nobody is mentioned by.
var tags = regexp.MustCompile(`^(https?://|mailto:|tel:)[^\s<>|]+(\|[^<>\n]*)?$`)

// CheckText refuses what a program should not send as mrkdwn: characters that
// are not escaped, links that are none, mentions, fences that are open.
func CheckText(text string) error {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '&':
			rest := text[i:]
			if !strings.HasPrefix(rest, "&amp;") && !strings.HasPrefix(rest, "&lt;") && !strings.HasPrefix(rest, "&gt;") {
				return fmt.Errorf("an & at %d that is not escaped", i)
			}
		case '>':
			if i > 0 && text[i-1] != '\n' && !quoteMarks(text[:i]) {
				return fmt.Errorf("a > at %d that is not escaped", i)
			}
		case '<':
			end := strings.IndexByte(text[i:], '>')
			if end < 0 {
				return fmt.Errorf("a < at %d that is not escaped", i)
			}
			if tag := text[i+1 : i+end]; !tags.MatchString(tag) {
				return fmt.Errorf("<%s> is no link", tag)
			}
			i += end
		case 0:
			return errors.New("a NUL")
		}
	}
	if strings.Count(text, "```")%2 != 0 {
		return errors.New("a fence that is open")
	}
	return nil
}

// quoteMarks reports that the line so far is nothing but quote marks.
func quoteMarks(before string) bool {
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return strings.Trim(line, "> ") == ""
}

// Limits of Block Kit.
const (
	maxBlocks  = 50
	maxSection = 3000
	maxButton  = 75
)

// CheckBlocks refuses what Block Kit does.
func CheckBlocks(data []byte) error {
	var blocks []struct {
		Type     string `json:"type"`
		BlockID  string `json:"block_id"`
		Text     *text  `json:"text"`
		Elements []struct {
			Type     string `json:"type"`
			ActionID string `json:"action_id"`
			Value    string `json:"value"`
			Style    string `json:"style"`
			Text     any    `json:"text"`
		} `json:"elements"`
	}
	if err := json.Unmarshal(data, &blocks); err != nil {
		return err
	}
	if len(blocks) > maxBlocks {
		return fmt.Errorf("%d blocks", len(blocks))
	}
	for i, b := range blocks {
		switch b.Type {
		case "section":
			if b.Text == nil || b.Text.Type != "mrkdwn" && b.Text.Type != "plain_text" || b.Text.Text == "" || len([]rune(b.Text.Text)) > maxSection {
				return fmt.Errorf("block %d: a section of %d characters", i, len([]rune(textOf(b.Text))))
			}
			if err := CheckText(b.Text.Text); b.Text.Type == "mrkdwn" && err != nil {
				return fmt.Errorf("block %d: %w", i, err)
			}
		case "actions":
			if n := len(b.Elements); n == 0 || n > 25 {
				return fmt.Errorf("block %d: %d elements", i, n)
			}
			seen := map[string]bool{}
			for _, e := range b.Elements {
				label, _ := e.Text.(map[string]any)["text"].(string)
				if e.Type != "button" || e.ActionID == "" || seen[e.ActionID] || len(e.Value) > 2000 || label == "" || len(label) > maxButton {
					return fmt.Errorf("block %d: a bad button %+v", i, e)
				}
				seen[e.ActionID] = true
			}
		case "context":
			if len(b.Elements) == 0 {
				return fmt.Errorf("block %d: a context without elements", i)
			}
		default:
			return fmt.Errorf("block %d: type %q", i, b.Type)
		}
	}
	return nil
}

type text struct{ Type, Text string }

func textOf(t *text) string {
	if t == nil {
		return ""
	}
	return t.Text
}
