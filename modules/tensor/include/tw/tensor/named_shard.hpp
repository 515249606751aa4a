// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tw/tensor/named_tensor.hpp>
#include <tw/tensor/shard_kind.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

/// One rank's slice of a named tensor, which may be spread over any number of ranks. Parallel strategies save and load checkpoints as lists of
/// slices. If each rank of the same number of ranks loads the slices that it saved, they are restored bit for bit. For OnReshard::shard and
/// replicate, the ranks' copies of an element must have been equal.
struct NamedShard {
  std::string name;                  ///< name of the global tensor; the same on all ranks, and different from those of other tensors
  std::vector<std::string> aliases;  ///< further names of the same tensor (tied parameters)
  std::vector<int64_t> global_shape;
  at::Tensor tensor;             ///< this rank's slice; any strides. Filled in place by loading
  std::vector<int64_t> offsets;  ///< index of the slice's first element in the global tensor, by dimension; its lengths are tensor.sizes()
  ShardKind kind = ShardKind::parameter;
  OnReshard on_reshard = OnReshard::shard;
  /// For a stack of layers along dimension 0: the name of one layer's tensor, with {} for the layer's number, such as "1.{}.weight". Empty: no stack
  std::string layers = {};

  /// Clears `aliases` and `layers`. Use it when you make a shard of optimizer state from a copy of its parameter's shard: the parameter's other names
  /// do not apply.
  void drop_other_names() {
    aliases.clear();
    layers.clear();
  }

  /// Spec of the global tensor.
  TensorSpec spec() const { return {name, global_shape, tensor.scalar_type()}; }
};

/// The shard of a tensor that every rank holds whole, with the same values (OnReshard::replicate).
NamedShard whole(std::string name, at::Tensor tensor, ShardKind kind);

/// "1.3.weight" for `layers` "1.{}.weight" and `layer` 3; see NamedShard::layers. @throws ContractError if `layers` has no {}
std::string layer_name(const std::string& layers, int64_t layer);

/// A whole stack as one tensor per layer, in order; each is a copy. @param layers as in NamedShard; empty: returns `stack` itself
std::vector<NamedTensor> unstacked(const NamedTensor& stack, const std::string& layers);

/// Divides consecutive elements of a row-major tensor into slices (OnReshard::shard), in the order of the elements: at most 2 * n - 1 of them for
/// n >= 1 dimensions.
/// @param run the elements, shape [count], contiguous; the results are views of it. @param begin index of the first of these elements in the
/// flattened tensor of `shape`.
std::vector<NamedShard> slices_of_run(const std::string& name, const std::vector<int64_t>& shape, const at::Tensor& run, int64_t begin,
                                      ShardKind kind);

/// A tensor that an optimizer updates, and the slices of named tensors that lie in it.
struct OptimizedTensor {
  at::Tensor tensor;
  std::vector<NamedShard> slices;  ///< their tensors are views of `tensor`, or `tensor` itself
};

/// The view of `other` at the place that `part` has in `tensor`, such as the momentum that belongs to a slice of a parameter.
/// @param other has the shape and strides of `tensor`. @param part a view of `tensor`, or `tensor` itself
at::Tensor counterpart(const at::Tensor& other, const at::Tensor& tensor, const at::Tensor& part);

}  // namespace tw
