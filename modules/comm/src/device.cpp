// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/device.hpp>

#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/locality.hpp>
#include <tw/mpi/topology.hpp>

#include "devices_here.hpp"
#include "pci_bus.hpp"

namespace tw {

int devices_here(c10::DeviceType type) { return c10::impl::hasDeviceGuardImpl(type) ? c10::impl::VirtualGuardImpl(type).deviceCount() : 0; }

std::string accelerator_here() {
  const std::optional<c10::DeviceType> type = at::accelerator::getAccelerator();
  return type && devices_here(*type) > 0 ? kind_of(*type) : "cpu";
}

namespace {

// Collective.
std::string accelerator_of_all(const Communicator& comm) {
  const std::vector<std::string> kinds = allgather_strings(comm, accelerator_here());
  const bool same = std::all_of(kinds.begin(), kinds.end(), [&](const std::string& kind) { return kind == kinds[0]; });
  return same ? kinds[0] : "cpu";
}

c10::Device parsed(const std::string& wanted) {
  try {
    const c10::Device device(wanted);
    if (device.is_cpu() || at::accelerator::isAccelerator(device.type())) return device;
  } catch (const c10::Error&) {
  }
  throw Error(concat("'", wanted, "' is not a device: expected cpu, auto, or an accelerator such as cuda or cuda:1"));
}

c10::Device device_here(c10::Device device, const Topology& topology) {
  const std::string kind = kind_of(device.type());
  if (!c10::impl::hasDeviceGuardImpl(device.type()))
    throw Error(concat("there is no ", kind, " device: this LibTorch was built without support for it"));
  const int devices = devices_here(device.type());
  if (devices == 0) throw Error(concat("there is no ", kind, " device on node ", topology.node));
  if (!device.has_index()) return {device.type(), static_cast<c10::DeviceIndex>(topology.local_rank % devices)};
  if (device.index() >= devices)
    throw Error(concat("there is no ", device.str(), " on node ", topology.node, ", whose number of devices is ", devices));
  return device;
}

}  // namespace

c10::Device device_of_rank(const Communicator& comm, const std::string& wanted) {
  expect_same_on_all_ranks(comm, "the device to compute on", {wanted});
  const Topology topology = find_topology(comm);
  const std::string kind = wanted == "auto" ? accelerator_of_all(comm) : wanted;
  const c10::Device device = on_all_ranks(comm, "choosing a device", [&] {
    const c10::Device asked = parsed(kind);
    return asked.is_cpu() ? asked : device_here(asked, topology);
  });
  if (device.is_cpu()) return device;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.setDevice(device);
  if (!stay_near(pci_bus_of(device))) {
    log_warning("rank ", int{comm.rank()}, " of node ", topology.node, " is bound to no core of the NUMA node that ", device.str(),
                " is attached to: copies to the device cross NUMA nodes");
  }
  const int devices = kind.find(':') == std::string::npos ? guard.deviceCount() : 1;
  if (comm.rank() == 0 && topology.local_size > devices) {
    log_warning(topology.local_size, " ranks of node ", topology.node, " share ", devices, devices == 1 ? " device" : " devices");
  }
  return device;
}

}  // namespace tw
