// SPDX-License-Identifier: Apache-2.0
#include "shared_tensors.hpp"

#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <map>
#include <string>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::layer_parallel {
namespace {

// Keeps a tensor's address unique without keeping its memory.
using Address = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

struct Owner {
  Address address;
  size_t block;
  int64_t layer;
  std::string name;
};

}  // namespace

void expect_no_shared_tensors(const std::vector<Block>& blocks, uint64_t seed) {
  GeneratorGuard generator;
  std::map<const c10::TensorImpl*, Owner> owners;
  const auto look_at = [&](size_t block, int64_t index) {
    generator.seed(seed, static_cast<uint64_t>(block) << 32U | static_cast<uint64_t>(index));
    const Layer layer = blocks[block].make(index);
    const auto add = [&](const std::string& name, const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const auto [found, is_new] = owners.try_emplace(tensor.unsafeGetTensorImpl(), Owner{Address(tensor.getIntrusivePtr()), block, index, name});
      const Owner& owner = found->second;
      const bool is_elsewhere = owner.block != block || owner.layer != index;
      TW_EXPECTS(!is_elsewhere || owner.block != block, "tensor '", name, "' of layer ", index, " of block ", block,
                 " is shared with another layer or name: a factory must make a new layer at each call, with its own tensors");
      TW_EXPECTS(!is_elsewhere, "tensor '", name, "' of block ", block, " is tensor '", owner.name, "' of block ", owner.block,
                 " too: blocks lie on different ranks, where copies of one tensor would be trained separately. Make new layers for each block");
    };
    for (const auto& p : layer.module->named_parameters()) add(p.key(), p.value());
    for (const auto& b : layer.module->named_buffers()) add(b.key(), b.value());
  };
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (int64_t index = 0; index < blocks[block].count; ++index) look_at(block, index);
  }
}

}  // namespace tw::layer_parallel
