# The image and the network that all agents in containers share. Apply it once,
# with the switch on; without it nothing is made.
terraform {
  required_version = ">= 1.4"
  required_providers {
    docker = {
      source  = "kreuzwerker/docker"
      version = "~> 3.0"
    }
  }
}

variable "enable_docker_agents" {
  description = "Make the image and the network."
  type        = bool
  default     = false
}

variable "source_dir" {
  description = "Checkout of the repository, with deploy/Dockerfile."
  type        = string
  default     = "/iris/repo"
}

variable "base" {
  description = "Image to build on; scratch has no shell."
  type        = string
  default     = "debian:stable-slim"
}

resource "docker_image" "runtime" {
  count = var.enable_docker_agents ? 1 : 0
  name  = "iris-runtime:local"
  build {
    context    = var.source_dir
    dockerfile = "deploy/Dockerfile"
    build_args = {
      BASE = var.base
    }
  }
}

resource "docker_network" "internal" {
  count  = var.enable_docker_agents ? 1 : 0
  name   = "iris-internal"
  driver = "bridge"
}

output "image" {
  description = "Name of the image, null while the switch is off."
  value       = one(docker_image.runtime[*].name)
}

output "network" {
  description = "Name of the network, null while the switch is off."
  value       = one(docker_network.internal[*].name)
}
