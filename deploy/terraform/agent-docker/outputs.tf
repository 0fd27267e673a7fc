output "container" {
  description = "Name of the container."
  value       = docker_container.agent.name
}

output "bridge_url" {
  description = "For agents.json."
  value       = "http://127.0.0.1:${var.bridge_port}"
}

output "api_token" {
  description = "The agent's token, for agents.json; null without unique_api_token."
  value       = local.token
  sensitive   = true
}

output "secrets" {
  description = "The allow-list, for agents.json."
  value       = var.secrets
}
