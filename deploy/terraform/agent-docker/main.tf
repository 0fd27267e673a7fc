# A sub-agent in a container. The image and the network come from
# ../runtime-image. Register the agent afterwards: with unique_api_token its
# calls are 401 until its token is in agents.json.
terraform {
  required_version = ">= 1.4"
  required_providers {
    docker = {
      source  = "kreuzwerker/docker"
      version = "~> 3.0"
    }
    random = {
      source  = "hashicorp/random"
      version = "~> 3.5"
    }
  }
}

locals {
  home    = "${var.iris_dir}/agents/${var.name}"
  events  = var.events_dir != "" ? var.events_dir : "${local.home}/events"
  api     = var.bridge_port + 100
  asks    = contains(["store", "proxy"], var.secrets_mode)
  token   = one(random_password.api_token[*].result)
  # The chat tokens are set always, and empty unless the agent has a bot of its
  # own: whatever the environment file says about them is left out.
  chat = {
    IRIS_SLACK_APP_TOKEN = var.slack_app_token
    IRIS_SLACK_BOT_TOKEN = var.slack_bot_token
    TELEGRAM_BOT_TOKEN   = var.telegram_bot_token
  }
  plain = {
    AGENT_NAME       = var.name
    IRIS_ENV         = var.environment
    IRIS_KEY_VAULT   = var.key_vault
    IRIS_API_URL     = var.parent_api_url
    IRIS_EVENTS_DIR  = "/events"
    IRIS_BRIDGE_PORT = tostring(var.bridge_port)
    IRIS_BRIDGE_HOST = "0.0.0.0"
    IRIS_API_PORT    = tostring(local.api)
    IRIS_API_HOST    = "0.0.0.0"
    HOME             = "/workspace"
  }
  identity = var.unique_api_token ? { IRIS_API_TOKEN = local.token, IRIS_BRIDGE_TOKEN = local.token } : {}
  broker   = local.asks ? { IRIS_SECRET_BROKER_URL = var.parent_api_url, IRIS_SECRET_BROKER_TOKEN = local.token } : {}
  ours     = merge(local.plain, local.identity, local.broker, local.chat)
  # Only in the mode env does the agent get what the parent's file holds.
  file_lines = var.secrets_mode == "env" && fileexists(var.env_file) ? split("\n", file(var.env_file)) : []
  from_file = {
    for line in local.file_lines : split("=", line)[0] => join("=", slice(split("=", line), 1, length(split("=", line))))
    if can(regex("^[A-Za-z_][A-Za-z0-9_]*=", line))
  }
  env = merge(local.from_file, local.ours)
}

resource "random_password" "api_token" {
  count   = var.unique_api_token ? 1 : 0
  length  = 32
  special = false
}

resource "docker_container" "agent" {
  name     = "iris-${var.name}"
  image    = var.image
  restart  = "unless-stopped"
  user     = var.user
  read_only = true
  command  = ["serve", "--sandbox=host", "/workspace"]
  env      = [for name, value in local.env : "${name}=${value}"]

  labels {
    label = "iris.agent"
    value = var.name
  }
  networks_advanced {
    name = var.network
  }
  host {
    host = "iris-host"
    ip   = "host-gateway"
  }
  capabilities {
    drop = ["ALL"]
  }
  security_opts = ["no-new-privileges"]
  tmpfs = {
    "/tmp" = "mode=1777"
  }

  ports {
    internal = var.bridge_port
    external = var.bridge_port
    ip       = "127.0.0.1"
  }
  ports {
    internal = local.api
    external = local.api
    ip       = "127.0.0.1"
  }

  volumes {
    host_path      = "${local.home}/data"
    container_path = "/workspace"
  }
  volumes {
    host_path      = "${local.home}/skills"
    container_path = "/workspace/skills"
    read_only      = true
  }
  volumes {
    host_path      = local.events
    container_path = "/events"
  }
  dynamic "volumes" {
    for_each = var.models_file != "" ? [var.models_file] : []
    content {
      host_path      = volumes.value
      container_path = "/workspace/models.json"
      read_only      = true
    }
  }
  dynamic "volumes" {
    for_each = var.azure_dir != "" ? [var.azure_dir] : []
    content {
      host_path      = volumes.value
      container_path = "/workspace/.azure"
    }
  }

  lifecycle {
    precondition {
      condition     = !local.asks || var.unique_api_token
      error_message = "secrets_mode store and proxy need unique_api_token = true: the agent asks its parent for secrets with its own token."
    }
    precondition {
      condition     = !local.asks || length(var.secrets) > 0
      error_message = "secrets_mode store and proxy need an allow-list in secrets that holds the model's key."
    }
  }
}
