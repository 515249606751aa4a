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
/// slices. Loading the same slices on the same number of ranks restores them bit for bit, if all copies of an element (OnReshard::shard, replicate)
/// were equal.
struct NamedShard {
  std::string name;                  ///< name of the global tensor; the same on all ranks
  std::vector<std::string> aliases;  ///< further names of the same tensor (tied parameters)
  std::vector<int64_t> global_shape;
  at::Tensor tensor;             ///< this rank's slice; any strides. Filled in place by loading
  std::vector<int64_t> offsets;  ///< where the slice begins, one per dimension; its lengths are tensor.sizes()
  ShardKind kind = ShardKind::parameter;
  OnReshard on_reshard = OnReshard::shard;
  /// For a stack of layers along dimension 0: the name of one layer's tensor, with {} for the layer's number, such as "1.{}.weight". Empty: no stack
  std::string layers = {};

  /// Removes all names except `name`. Use it for optimizer state, which has no other names.
  void drop_other_names() {
    aliases.clear();
    layers.clear();
  }

  /// Spec of the global tensor.
  TensorSpec spec() const { return {name, global_shape, tensor.scalar_type()}; }
};

/// The shard of a tensor that every rank holds whole, with the same values (OnReshard::replicate).
NamedShard whole(std::string name, at::Tensor tensor, ShardKind kind);

/// "1.3.weight" for `layers` "1.{}.weight" and `layer` 3; see NamedShard::layers.
std::string layer_name(const std::string& layers, int64_t layer);

/// A whole stack as one tensor per layer; each is a copy. @param layers as in NamedShard; empty: returns `stack` itself
std::vector<NamedTensor> unstacked(const NamedTensor& stack, const std::string& layers);

/// Splits consecutive elements of a row-major tensor into boxes, in the order of the elements: at most 2 * n - 1 boxes for n >= 1 dimensions.
/// @param run the elements, shape [count], contiguous; the results are views of it. @param begin index of the first of these elements in the
/// flattened tensor of `shape`.
std::vector<NamedShard> slices_of_run(const std::string& name, const std::vector<int64_t>& shape, const at::Tensor& run, int64_t begin,
                                      ShardKind kind);

/// A tensor that an optimizer updates, and the slices of named tensors that lie in it.
struct OptimizedTensor {
  at::Tensor tensor;
  std::vector<NamedShard> slices;  ///< their tensors are views of `tensor`, or `tensor` itself
};

/// The part of `other` that corresponds to the part `part` of `tensor`; shares memory with `other`.
/// @param other has the shape and strides of `tensor`. @param part a view of `tensor`, or `tensor` itself
at::Tensor counterpart(const at::Tensor& other, const at::Tensor& tensor, const at::Tensor& part);

}  // namespace tw
