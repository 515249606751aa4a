// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <tw/graph/forward.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/parallel_model/parallel_model.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <type_traits>
#include <vector>

namespace tw {

/// Divides any module over a mesh. Along the mesh axes `data` and `shard`, the module runs unchanged. Along `stage`, it is captured, measured, and
/// cut by a plan, also if it contains split layers. Along `tensor`, these (tensor_parallel::SplitModule) hold slices; a module without any is
/// captured, and its operators are divided by experiment, see <tw/splits/split_graphs.hpp>. Along `layer`, only blocks of layer_parallel can be
/// divided: see the last function of this header. Collective.
/// @param mesh the model makes its own communicators, but split layers keep those of the mesh, unless they are captured
/// @param module shares its tensors with the model. Every rank gets rank 0's values; of a module with split layers, ranks along all axes but `tensor`
/// get the values of the first of them. Along `stage`, and along `tensor` without split layers, the module's code does not run any more, and a rank
/// keeps only the values of its own stages and the parameters that are not divided: using another tensor is an error. train() and eval() of the whole
/// module apply to the model, too
/// @param forward calls the module. @param example a batch of inputs, with the usual number of rows
/// @throws ContractError on every rank for an axis that this kind of model cannot use, and for a module that was cut into stages before; Error with
/// the reason of graph::capture() if the module cannot be captured
ParallelModel parallelize(const Mesh& mesh, const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward,
                          const std::vector<at::Tensor>& example, const ParallelOptions& options = {});

/// parallelize() for a module whose forward() takes one to four tensors, or a list. @param module must outlive the model unless a shared pointer
/// holds it
template <class Module>
  requires std::is_base_of_v<torch::nn::Module, Module>
ParallelModel parallelize(const Mesh& mesh, Module& module, const std::vector<at::Tensor>& example, const ParallelOptions& options = {}) {
  std::shared_ptr<torch::nn::Module> held = module.weak_from_this().lock();
  if (!held) held = std::shared_ptr<torch::nn::Module>(std::shared_ptr<void>(), &module);
  return parallelize(mesh, held, graph::forward_of(module), example, options);
}

namespace detail {
struct MadeModule {
  std::shared_ptr<torch::nn::Module> module;
  graph::Forward forward;
};
ParallelModel parallelize_made(const Mesh& mesh, const std::function<MadeModule()>& make, const std::vector<at::Tensor>& example,
                               const ParallelOptions& options);
}  // namespace detail

/// Makes and divides a module that is too large for one rank. Its large tensors get no memory while `make` runs. Each rank then allocates and fills
/// only the parameters of its stages and, along `shard`, only its part of each. Initial values depend only on ParallelOptions::seed, tensor and
/// element, see InitialValues. The measurements for the plan of stages use other values.
/// @param make returns the module, as a holder or a shared pointer; every rank calls it
/// @throws ContractError as InitialValues::fill() does
template <class Make>
  requires std::is_invocable_v<Make&> && (!std::is_base_of_v<torch::nn::Module, std::remove_cvref_t<Make>>)
ParallelModel parallelize(const Mesh& mesh, Make make, const std::vector<at::Tensor>& example, const ParallelOptions& options = {}) {
  return detail::parallelize_made(
      mesh,
      [&make] {
        auto made = make();
        return detail::MadeModule{layer_parallel::detail::pointer_of(made), graph::forward_of(*made)};
      },
      example, options);
}

/// parallelize() for a list of blocks. Along `stage`, it is cut between blocks. Parameters are named like those of a torch::nn::Sequential, such as
/// "3.weight". Blocks may contain split layers. Every rank calls all factories, and keeps the blocks of its stages.
ParallelModel parallelize(const Mesh& mesh, const std::vector<pipeline::BlockFactory>& blocks, const std::vector<at::Tensor>& example,
                          const ParallelOptions& options = {});

/// parallelize() for a network whose ODE blocks are divided along `layer`; see layer_parallel::LayerParallel. Along `stage`, the network is cut
/// between blocks. Its layers may contain split layers.
ParallelModel parallelize(const Mesh& mesh, const std::vector<layer_parallel::Block>& blocks, const std::vector<at::Tensor>& example,
                          const layer_parallel::LayerParallelOptions& layers, const ParallelOptions& options = {});

}  // namespace tw
