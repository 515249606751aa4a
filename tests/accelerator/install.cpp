// SPDX-License-Identifier: Apache-2.0
// What LibTorch requires of a device type: guard, hooks, allocators.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <map>

#include "accelerator.hpp"
#include "memory.hpp"
#include "operators.hpp"
#include "streams.hpp"

namespace tw::testing::accelerator {
namespace {

Event& event_at(void* event) { return *static_cast<Event*>(event); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return device_type; }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }

  c10::Device getDevice() const override { return current_device(); }
  void setDevice(c10::Device device) const override { set_current_device(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { set_current_device(device); }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = current_device();
    set_current_device(device);
    return before;
  }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return stream_of_pool(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream(stream.device());
    set_current_stream(stream);
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return native_handle(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    Event event = accelerator::record(stream);
    return query(event);
  }
  void synchronizeStream(const c10::Stream& stream) const override { wait_on_host(stream); }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    const c10::Device device(device_type, index);
    for (int i = 0; i < 8; ++i) finish(stream_of_pool(device));
    wait_on_host(default_stream(device));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    event_at(*event) = accelerator::record(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) wait_in(stream, event_at(event));
  }
  bool queryEvent(void* event) const override { return event == nullptr || query(event_at(event)); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) wait_on_host(event_at(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }

  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static auto& of_devices = *new std::map<c10::DeviceIndex, at::Generator>;  // CPU generators, since the CPU's operators are used
    return of_devices.try_emplace(index, at::detail::createCPUGenerator()).first->second;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* memory) const override { return is_pinned(memory); }
};

}  // namespace

void install(int devices) {
  if (device_count() > 0) return;
  set_device_count(devices);
  static Guard guard;
  static Hooks hooks;
  static const c10::impl::DeviceGuardImplRegistrar registrar(device_type, &guard);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(device_type, device_allocator());
  c10::register_privateuse1_backend("simulated");
  register_operators();
}

void move(const at::Tensor& tensor, c10::Device device) {
  const at::NoGradGuard no_grad;
  tensor.unsafeGetTensorImpl()->shallow_copy_from(tensor.detach().to(device).getIntrusivePtr());
}

c10::Device device(int index) { return {device_type, static_cast<c10::DeviceIndex>(index)}; }

}  // namespace tw::testing::accelerator
