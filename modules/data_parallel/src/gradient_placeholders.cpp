// SPDX-License-Identifier: Apache-2.0
#include "gradient_placeholders.hpp"

#include <ATen/ops/empty.h>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <utility>

namespace tw {

GradientPlaceholders::GradientPlaceholders(const std::vector<NamedTensor>& parameters, std::string instead)
    : parameters_(parameters), instead_(std::move(instead)) {
  for (size_t id = 0; id < parameters_.size(); ++id) {
    const at::Tensor& parameter = parameters_[id].tensor;
    Placeholder& placeholder = placeholders_.emplace_back();
    placeholder.memory = std::make_shared<WatchedMemory>(this, id);
    placeholder.tensor = at::empty(parameter.sizes(), at::device(at::kMeta).dtype(parameter.scalar_type()));
    const c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, watched_pointer(nullptr, placeholder.memory, {}, parameter.device()), nullptr,
                               false);
    place_in_storage(placeholder.tensor, nothing, 0, parameter.scalar_type());
    watch(placeholder.tensor);
  }
}

GradientPlaceholders::~GradientPlaceholders() {
  for (size_t id = 0; id < placeholders_.size(); ++id) {
    remove(id);
    placeholders_[id].memory->owner = nullptr;
    refuse_pointers(placeholders_[id].tensor.unsafeGetTensorImpl()->unsafe_storage(),
                    concat("the gradient of ", parameters_[id].name, " was sharded, and the object that reduced it no longer exists"));
  }
}

void GradientPlaceholders::put(size_t id) {
  parameters_[id].tensor.mutable_grad() = placeholders_[id].tensor;
  placeholders_[id].is_put = true;
}

// Also true if `.grad()` is a detached alias of the placeholder.
bool GradientPlaceholders::is_there(size_t id) const {
  const at::Tensor& gradient = parameters_[id].tensor.grad();
  const auto storage_of = [](const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); };
  return gradient.defined() && gradient.has_storage() && storage_of(gradient) == storage_of(placeholders_[id].tensor);
}

void GradientPlaceholders::remove(size_t id) {
  if (!is_there(id)) return;
  parameters_[id].tensor.mutable_grad() = at::Tensor();
  placeholders_[id].is_put = false;
}

bool GradientPlaceholders::was_dropped(size_t id) {
  Placeholder& placeholder = placeholders_[id];
  const bool dropped = placeholder.is_put && !is_there(id);
  if (dropped) placeholder.is_put = false;
  return dropped;
}

// zero_grad() of modules and of optimizers detaches a gradient before it drops it.
void GradientPlaceholders::before_operator(std::span<const WatchedArgument> arguments, const std::string& op) {
  if (op == "aten::detach" || op == "aten::detach_") return;
  for (const WatchedArgument& each : arguments) {
    TW_EXPECTS(each.memory->owner != this, "the gradient of ", parameters_[each.memory->index].name,
               " is sharded, and not in the parameter's .grad(): ", instead_);
  }
}

}  // namespace tw
