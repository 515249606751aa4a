// SPDX-License-Identifier: Apache-2.0
// probe_device KIND: prints the devices of that kind, such as cuda, that LibTorch finds here, as a JSON object. If it finds none, it prints a message
// and exits with 77.
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <iostream>

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "cuda";
  const c10::DeviceType type = c10::Device(kind).type();
  if (!c10::impl::hasDeviceGuardImpl(type)) {
    std::cout << "there is no " << kind << " device: this LibTorch was built without" << std::endl;
    return 77;
  }
  const int devices = c10::impl::VirtualGuardImpl(type).deviceCount();
  if (devices == 0) {
    std::cout << "there is no " << kind << " device that LibTorch " << TORCH_VERSION << " finds" << std::endl;
    return 77;
  }
  std::cout << "{\"kind\":\"" << kind << "\",\"devices\":" << devices << ",\"libtorch\":\"" << TORCH_VERSION << "\"}" << std::endl;
  return 0;
}
