# A sub-agent in a Firecracker microVM of its own: a copy of the root file
# system, the machine's configuration, and a service that sets up its network,
# runs it in the jailer, and takes the network down again.
terraform {
  required_version = ">= 1.4"
  required_providers {
    local = {
      source  = "hashicorp/local"
      version = "~> 2.4"
    }
  }
}

locals {
  unit   = "iris-fc-${var.name}"
  dir    = "${var.iris_dir}/agents/${var.name}/vm"
  tap    = "irisfc${var.slot}"
  host   = "172.20.${var.slot}.1"
  guest  = "172.20.${var.slot}.2"
  chroot = "${var.jail_dir}/firecracker/${local.unit}/root"
  config = {
    "boot-source" = {
      kernel_image_path = var.jailer ? "vmlinux" : var.kernel
      # The guest takes its address from here.
      boot_args = "console=ttyS0 reboot=k panic=1 pci=off guestip=${local.guest} hostip=${local.host} ip=${local.guest}::${local.host}:255.255.255.252::eth0:off"
    }
    drives = [{
      drive_id       = "rootfs"
      path_on_host   = var.jailer ? "rootfs.ext4" : "${local.dir}/rootfs.ext4"
      is_root_device = true
      is_read_only   = false
    }]
    "machine-config" = {
      vcpu_count   = var.vcpus
      mem_size_mib = var.memory_mib
    }
    "network-interfaces" = [{
      iface_id      = "eth0"
      host_dev_name = local.tap
      guest_mac     = format("06:00:ac:14:%02x:02", var.slot)
    }]
  }
  start = (var.jailer
    ? "${var.bin_dir}/jailer --id ${local.unit} --exec-file ${var.bin_dir}/firecracker --uid ${var.uid} --gid ${var.gid} --chroot-base-dir ${var.jail_dir} -- --no-api --config-file vm-config.json"
    : "${var.bin_dir}/firecracker --no-api --config-file ${local.dir}/vm-config.json"
  )
  service = <<-UNIT
    [Unit]
    Description=Iris agent ${var.name} in a microVM
    After=network-online.target
    Wants=network-online.target

    [Service]
    Type=simple
    ExecStartPre=-/sbin/ip tuntap add dev ${local.tap} mode tap user ${var.uid}
    ExecStartPre=/sbin/ip addr replace ${local.host}/30 dev ${local.tap}
    ExecStartPre=/sbin/ip link set ${local.tap} up
    ExecStart=${local.start}
    ExecStopPost=-/sbin/ip link del ${local.tap}
    Restart=on-failure
    RestartSec=5

    [Install]
    WantedBy=multi-user.target
  UNIT
}

resource "local_file" "config" {
  filename        = "${local.dir}/vm-config.json"
  content         = jsonencode(local.config)
  file_permission = "0600"
}

resource "local_file" "unit" {
  filename        = "/etc/systemd/system/${local.unit}.service"
  content         = local.service
  file_permission = "0644"
}

resource "terraform_data" "rootfs" {
  triggers_replace = [var.rootfs]
  input            = local.dir
  provisioner "local-exec" {
    command = "mkdir -p '${local.dir}' && cp --sparse=always '${var.rootfs}' '${local.dir}/rootfs.ext4'"
  }

  lifecycle {
    precondition {
      condition     = var.rootfs != "" && var.kernel != ""
      error_message = "A microVM needs a kernel and a root file system."
    }
  }
}

# The jailer's directory holds links to what the machine needs, owned by the
# user it runs as.
resource "terraform_data" "jail" {
  count            = var.jailer ? 1 : 0
  triggers_replace = [local.config, terraform_data.rootfs.id]
  provisioner "local-exec" {
    command = <<-SH
      set -eu
      install -d -m 0700 -o ${var.uid} -g ${var.gid} '${local.chroot}'
      cp --sparse=always '${local.dir}/rootfs.ext4' '${local.chroot}/rootfs.ext4'
      cp '${var.kernel}' '${local.chroot}/vmlinux'
      cp '${local_file.config.filename}' '${local.chroot}/vm-config.json'
      chown ${var.uid}:${var.gid} '${local.chroot}/rootfs.ext4' '${local.chroot}/vmlinux' '${local.chroot}/vm-config.json'
    SH
  }
}

resource "terraform_data" "service" {
  triggers_replace = [local_file.unit.content, local_file.config.content, terraform_data.rootfs.id]
  input            = local.unit
  depends_on       = [terraform_data.jail]
  provisioner "local-exec" {
    command = <<-SH
      set -eu
      systemctl daemon-reload
      systemctl enable ${local.unit}.service
      systemctl restart ${local.unit}.service
      i=0
      until curl -fsS --max-time 2 'http://${local.guest}:${var.api_port}/health' >/dev/null; do
        i=$((i + 1))
        [ "$i" -lt ${var.wait_seconds} ] || exit 1
        sleep 1
      done
    SH
  }
  provisioner "local-exec" {
    when    = destroy
    command = "systemctl disable --now ${self.input}.service || true"
  }
}
