package config

import (
	"slices"
	"strings"
	"testing"
)

func TestTelegram(t *testing.T) {
	c, _, err := Load(source(t, "", "TELEGRAM_BOT_TOKEN=1:x", "IRIS_TELEGRAM_MEMBERS=7,8", "IRIS_TELEGRAM_FORCE_RECLAIM=true"))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := c.Telegram.MemberIDs()
	if err != nil || !slices.Equal(ids, []int64{7, 8}) || c.Telegram.Token.Reveal() != "1:x" || !c.Telegram.Reclaim || c.Telegram.API != "https://api.telegram.org" {
		t.Errorf("Load() = %+v, members %v, %v", c.Telegram, ids, err)
	}
	for _, wrong := range []string{"IRIS_TELEGRAM_MEMBERS=@ann", "IRIS_TELEGRAM_API_URL=nowhere", "IRIS_TELEGRAM_MAX_AGE_HOURS=-1"} {
		name, _, _ := strings.Cut(wrong, "=")
		if _, _, err := Load(source(t, "", wrong)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Load with %s = %v, want an error that names it", wrong, err)
		}
	}
}
