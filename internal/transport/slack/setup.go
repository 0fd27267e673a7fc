package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Scopes are what Iris may do in a workspace, with what each is for.
func Scopes() [][2]string {
	return [][2]string{
		{"app_mentions:read", "being mentioned"},
		{"channels:history", "reading public channels she is in"},
		{"channels:read", "knowing which channels she is in"},
		{"chat:write", "answering"},
		{"commands", "slash commands"},
		{"files:read", "reading what people attach"},
		{"files:write", "sending files"},
		{"groups:history", "reading private channels she is in"},
		{"groups:read", "knowing which private channels she is in"},
		{"im:history", "reading direct messages"},
		{"im:read", "knowing her direct messages"},
		{"im:write", "opening direct messages"},
		{"mpim:history", "reading group messages"},
		{"mpim:read", "knowing her group messages"},
		{"pins:write", "keeping the board of a room pinned"},
		{"reactions:write", "reactions"},
		{"users:read", "knowing people's names"},
	}
}

// Manifest is the description of the app, as Slack takes it under "from a
// manifest".
func Manifest(name string) []byte {
	type m = map[string]any
	var scopes []string
	for _, s := range Scopes() {
		scopes = append(scopes, s[0])
	}
	var commands []m
	for _, c := range SlashCommands() {
		command := m{"command": c[0], "description": c[1], "should_escape": false}
		if c[0] == "/verbose" {
			command["usage_hint"] = "on | off | status"
		}
		commands = append(commands, command)
	}
	data, err := json.MarshalIndent(m{
		"display_information": m{"name": name, "description": "An operator and teammate who works where you talk"},
		"features": m{
			"app_home":       m{"home_tab_enabled": false, "messages_tab_enabled": true, "messages_tab_read_only_enabled": false},
			"bot_user":       m{"display_name": name, "always_online": true},
			"slash_commands": commands,
		},
		"oauth_config": m{"scopes": m{"bot": scopes}},
		"settings": m{
			"event_subscriptions":    m{"bot_events": []string{"app_mention", "message.channels", "message.groups", "message.im", "message.mpim", "team_join", "user_change"}},
			"interactivity":          m{"is_enabled": true},
			"org_deploy_enabled":     false,
			"socket_mode_enabled":    true,
			"token_rotation_enabled": false,
		},
	}, "", "  ")
	if err != nil {
		return nil // strings always marshal
	}
	return append(data, '\n')
}

// A Finding is one line of a check.
type Finding struct {
	OK   bool
	Text string
}

// Check tries the tokens. It opens no connection, so that a serving Iris is not
// disturbed.
func Check(ctx context.Context, opts Options) (all []Finding) {
	add := func(ok bool, format string, args ...any) {
		all = append(all, Finding{ok, fmt.Sprintf(format, args...)})
	}
	switch {
	case opts.AppToken.IsZero():
		add(false, "IRIS_SLACK_APP_TOKEN is not set: it begins with xapp- and is made under Basic Information, App-Level Tokens, with the scope connections:write")
	case !strings.HasPrefix(opts.AppToken.Reveal(), "xapp-"):
		add(false, "IRIS_SLACK_APP_TOKEN does not begin with xapp-: it is another kind of token")
	}
	switch {
	case opts.BotToken.IsZero():
		add(false, "IRIS_SLACK_BOT_TOKEN is not set: it begins with xoxb- and is shown under OAuth & Permissions when the app is installed")
	case !strings.HasPrefix(opts.BotToken.Reveal(), "xoxb-"):
		add(false, "IRIS_SLACK_BOT_TOKEN does not begin with xoxb-: it is another kind of token")
	}
	if len(all) > 0 {
		return all
	}
	s, err := New(opts)
	if err != nil {
		add(false, "%v", err)
		return all
	}
	defer s.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	who, err := s.api.AuthTestContext(ctx)
	if err != nil {
		add(false, "Slack refuses the bot token: %v", err)
	} else {
		add(true, "the bot token is that of @%s in %s (%s)", who.User, who.Team, who.URL)
		granted := strings.Split(strings.ReplaceAll(who.Header.Get("X-OAuth-Scopes"), " ", ""), ",")
		missing := 0
		for _, scope := range Scopes() {
			if !slices.Contains(granted, scope[0]) {
				missing++
				add(false, "the scope %s, for %s: add it under OAuth & Permissions and install the app again", scope[0], scope[1])
			}
		}
		if missing == 0 {
			add(true, "all scopes are there")
		}
		if channels, err := s.channels(ctx); err != nil {
			add(false, "the channels cannot be listed: %v", err)
		} else {
			add(true, "she is in %d channels and direct messages", len(channels))
		}
	}
	if _, _, err := s.api.StartSocketModeContext(ctx); err != nil {
		add(false, "Slack refuses the app token: %v (it needs the scope connections:write, and Socket Mode must be on)", err)
	} else {
		add(true, "the app token opens connections")
	}
	return all
}
