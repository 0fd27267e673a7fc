output "guest_ip" {
  description = "Address of the guest; its commands run with --sandbox=firecracker:<address>."
  value       = local.guest
}

output "sandbox" {
  value = "firecracker:${local.guest}"
}

output "unit" {
  value = "${local.unit}.service"
}
