variable "name" {
  description = "Name of the agent; the service is iris-fc-<name>."
  type        = string
  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$", var.name))
    error_message = "A name has up to 40 letters, digits, _ and -, the first a letter or digit."
  }
}

variable "slot" {
  description = "Number of the network between host and guest; each machine has its own."
  type        = number
  validation {
    condition     = var.slot >= 1 && var.slot <= 254
    error_message = "The slot is between 1 and 254."
  }
}

variable "jailer" {
  description = "Run the machine in the jailer."
  type        = bool
  default     = true
}

variable "kernel" {
  type = string
}

variable "rootfs" {
  description = "Root file system to copy; it starts iris serve."
  type        = string
}

variable "api_port" {
  description = "Port of the agent's API in the guest, 100 above its bridge."
  type        = number
  default     = 4300
}

variable "wait_seconds" {
  description = "How long the agent may take to answer /health."
  type        = number
  default     = 30
  validation {
    condition     = var.wait_seconds <= 30
    error_message = "A machine that takes longer than 30 s does not come."
  }
}

variable "vcpus" {
  type    = number
  default = 1
}

variable "memory_mib" {
  type    = number
  default = 512
}

variable "uid" {
  description = "User the machine runs as; not root."
  type        = number
  default     = 65532
  validation {
    condition     = var.uid > 0
    error_message = "The machine does not run as root."
  }
}

variable "gid" {
  type    = number
  default = 65532
}

variable "bin_dir" {
  type    = string
  default = "/usr/local/bin"
}

variable "iris_dir" {
  type    = string
  default = "/iris"
}

variable "jail_dir" {
  type    = string
  default = "/srv/jailer"
}
