variable "name" {
  description = "Name of the agent; the container is iris-<name>."
  type        = string
  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$", var.name))
    error_message = "A name has up to 40 letters, digits, _ and -, the first a letter or digit."
  }
}

variable "bridge_port" {
  description = "Port of the bridge on the host's loopback; the API is 100 above it. See iris agent next-port."
  type        = number
  validation {
    condition     = var.bridge_port > 0 && var.bridge_port + 100 <= 65535
    error_message = "The bridge's port leaves no room for the API above it."
  }
}

variable "secrets_mode" {
  description = "env: the parent's environment file; store, proxy: nothing but the agent's own token and where to ask."
  type        = string
  default     = "env"
  validation {
    condition     = contains(["env", "store", "proxy"], var.secrets_mode)
    error_message = "secrets_mode is env, store or proxy."
  }
}

variable "unique_api_token" {
  description = "Make a token of its own for the agent, to be stored as its token in agents.json."
  type        = bool
  default     = false
}

variable "secrets" {
  description = "Names the agent may read; for agents.json."
  type        = list(string)
  default     = []
}

variable "iris_dir" {
  type    = string
  default = "/iris"
}

variable "env_file" {
  description = "The parent's environment file, read in the mode env alone."
  type        = string
  default     = "/iris/.env"
}

variable "parent_api_url" {
  description = "The parent's API as the container reaches it."
  type        = string
  default     = "http://172.18.0.1:3000"
}

variable "events_dir" {
  description = "Where escalations are left while the parent is down; empty: the agent's own events/. Who may write into the parent's directory may speak as anybody."
  type        = string
  default     = ""
}

variable "environment" {
  type    = string
  default = "prod"
}

variable "key_vault" {
  type    = string
  default = ""
}

variable "image" {
  type    = string
  default = "iris-runtime:local"
}

variable "network" {
  type    = string
  default = "iris-internal"
}

variable "user" {
  type    = string
  default = "65532:65532"
}

variable "models_file" {
  description = "A models.json for the agent; empty: none."
  type        = string
  default     = ""
}

variable "azure_dir" {
  description = "A ~/.azure for the agent; empty: none."
  type        = string
  default     = ""
}

# A bot of the agent's own, never the parent's.
variable "slack_app_token" {
  type      = string
  default   = ""
  sensitive = true
}

variable "slack_bot_token" {
  type      = string
  default   = ""
  sensitive = true
}

variable "telegram_bot_token" {
  type      = string
  default   = ""
  sensitive = true
}
