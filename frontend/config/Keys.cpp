//===- Keys.cpp - Every key of a DeepSpeed file ---------------------------===//

#include "frontend/config/Keys.h"

#include <algorithm>
#include <numeric>
#include <vector>

using namespace ciuic::config;

namespace {

constexpr KeyType Bool = KeyType::Bool;
constexpr KeyType Int = KeyType::Integer;
constexpr KeyType Num = KeyType::Number;
constexpr KeyType Str = KeyType::String;
constexpr KeyType List = KeyType::List;
constexpr KeyType Obj = KeyType::Object;
constexpr KeyType Any = KeyType::Any;

/// Read by the resolver.
constexpr KeySpec acts(std::string_view name, KeyType type,
                       std::string_view what) {
  return {name, type, true, "", what};
}

/// Known, without effect here unless its value is `inert`.
constexpr KeySpec idle(std::string_view name, KeyType type,
                       std::string_view inert, std::string_view what) {
  return {name, type, false, inert, what};
}

//===----------------------------------------------------------------------===//
// Top level
//===----------------------------------------------------------------------===//

constexpr KeySpec topKeys[] = {
    acts("train_batch_size", Int, "sequences in one optimizer step"),
    acts("train_micro_batch_size_per_gpu", Int,
         "sequences on one device in one forward and backward"),
    acts("gradient_accumulation_steps", Int,
         "forwards and backwards before one optimizer step"),
    idle("managed_gradient_accumulation", Bool, "true",
         "the engine, not the caller, counts the accumulation"),
    acts("fp16", Obj, "computes in fp16 with a scaled loss"),
    acts("bf16", Obj, "computes in bf16"),
    acts("bfloat16", Obj, "the old name of bf16"),
    idle("torch_autocast", Obj, "off", "mixed precision by PyTorch's autocast"),
    acts("amp", Obj, "mixed precision by Apex"),
    acts("data_types", Obj, "types of gradients and parameters"),
    acts("communication_data_type", Str, "type in which gradients travel"),
    idle("seq_parallel_communication_data_type", Str, "\"fp32\"",
         "type in which sequence-parallel gradients travel"),
    acts("gradient_clipping", Num,
         "largest global norm of the gradient; 0 is off"),
    acts("prescale_gradients", Bool, "divides gradients before they are added"),
    acts("gradient_predivide_factor", Num,
         "divides gradients by this much before they are added"),
    acts("gradient_allreduce_op", Str, "whether ranks are averaged or added"),
    idle("sparse_gradients", Bool, "false",
         "sends the embedding's gradient as a sparse tensor"),
    idle("disable_allgather", Bool, "false",
         "gathers parameters by broadcasts instead"),
    acts("optimizer", Obj, "how parameters are updated"),
    acts("scheduler", Obj, "how the learning rate moves"),
    acts("zero_optimization", Obj, "what is sharded over the devices"),
    acts("zero_allow_untested_optimizer", Bool,
         "lets ZeRO work with an optimizer other than Adam"),
    acts("zero_force_ds_cpu_optimizer", Bool,
         "refuses offload with an optimizer other than DeepSpeed's CPU Adam"),
    acts("aio", Obj, "how files of NVMe offload are read and written"),
    idle("compile", Obj, "off", "DeepCompile's graph passes"),
    idle("activation_checkpointing", Obj, "{}",
         "how marked layers are recomputed; choose recomputation on the "
         "command line"),
    acts("steps_per_print", Int, "optimizer steps from one report to the next"),
    acts("wall_clock_breakdown", Bool, "prints where the time of a step went"),
    idle("memory_breakdown", Bool, "false", "prints memory in use"),
    idle("dump_state", Bool, "false", "prints the engine's state"),
    idle("log_level", Any, "null", "how much the engine logs"),
    idle("flops_profiler", Obj, "off", "counts operations a module"),
    idle("tensorboard", Obj, "off", "writes TensorBoard events"),
    idle("csv_monitor", Obj, "off", "writes metrics as CSV"),
    idle("wandb", Obj, "off", "sends metrics to Weights & Biases"),
    idle("comet", Obj, "off", "sends metrics to Comet"),
    idle("monitor_config", Obj, "off", "the old group of monitors"),
    idle("comms_logger", Obj, "off", "logs every collective"),
    idle("timers", Obj, "{}", "throughput timer and its synchronisation"),
    idle("dataloader_drop_last", Bool, "false", "drops a short last batch"),
    idle("vocabulary_size", Any, "null", "warns about an odd vocabulary"),
    acts("checkpoint", Obj, "how checkpoints are written"),
    acts("elasticity", Obj, "batch sizes that fit several device counts"),
    idle("autotuning", Obj, "off", "searches for a fast configuration"),
    idle("tensor_parallel", Obj, "{}", "splits layers over devices"),
    idle("expert_parallel", Obj, "off", "splits experts over devices"),
    idle("sequence_parallel_size", Int, "1", "splits sequences over devices"),
    idle("pipeline", Obj, "{}", "splits the model into stages"),
    idle("hybrid_engine", Obj, "off", "generates text while training"),
    idle("progressive_layer_drop", Obj, "off", "skips layers at random"),
    idle("eigenvalue", Obj, "off", "estimates curvature for quantization"),
    idle("quantize_training", Obj, "off", "quantizes weights while training"),
    idle("compression_training", Obj, "{}", "compresses the model"),
    idle("sparse_attention", Obj, "{}", "attends to blocks of a fixed pattern"),
    idle("data_efficiency", Obj, "off", "curriculum and token dropping"),
    idle("curriculum_learning", Obj, "off", "grows the sequence length"),
    idle("nebula", Obj, "off", "asynchronous checkpoints to Azure"),
    idle("datastates", Obj, "off", "asynchronous checkpoints by DataStates"),
    idle("weight_quantization", Obj, "{}", "quantizes weights for inference"),
    idle("graph_harvesting", Bool, "false", "replays CUDA graphs"),
    idle("use_data_before_expert_parallelism", Bool, "false",
         "order of ranks for experts"),
};

//===----------------------------------------------------------------------===//
// Precision
//===----------------------------------------------------------------------===//

constexpr KeySpec fp16Keys[] = {
    acts("enabled", Bool, "computes in fp16 with fp32 master weights"),
    idle("auto_cast", Bool, "false", "casts floating-point inputs"),
    acts("loss_scale", Num, "a fixed loss scale; 0 lets it move"),
    acts("initial_scale_power", Int, "the first loss scale is 2 to this power"),
    acts("loss_scale_window", Int,
         "good steps after which the loss scale doubles"),
    acts("hysteresis", Int, "overflows until the loss scale halves"),
    acts("consecutive_hysteresis", Bool,
         "a good step forgives earlier overflows"),
    acts("min_loss_scale", Num,
         "an overflow at this loss scale stops the training"),
    acts("fp16_master_weights_and_grads", Bool,
         "keeps master weights in fp16; here they stay fp32"),
};

constexpr KeySpec bf16Keys[] = {
    acts("enabled", Bool, "computes in bf16 with fp32 master weights"),
    idle("immediate_grad_update", Bool, "false",
         "adds each gradient to fp32 as soon as it exists"),
    acts("check_grad_overflow", Bool, "skips steps with inf or NaN gradients"),
    acts("bf16_master_weights_and_grads", Bool,
         "keeps master weights in bf16; here they stay fp32"),
    acts("bf16_optimizer_states", Bool,
         "keeps moments in bf16; here they stay fp32"),
};

constexpr KeySpec dataTypesKeys[] = {
    acts("grad_accum_dtype", Str,
         "type in which gradients accumulate; here always fp32"),
    idle("param_dtype", Str, "null", "type of the gathered parameters"),
    idle("buffer_dtype", Str, "null", "type of the model's buffers"),
};

//===----------------------------------------------------------------------===//
// Optimizer and scheduler
//===----------------------------------------------------------------------===//

constexpr KeySpec optimizerKeys[] = {
    acts("type", Str, "the rule that updates parameters"),
    acts("params", Obj, "the rule's parameters"),
    idle("legacy_fusion", Bool, "false", "an old way to fuse fp16 updates"),
};

constexpr KeySpec optimizerParamsKeys[] = {
    acts("lr", Num, "learning rate"),
    acts("betas", List, "decay of the first and second moment"),
    acts("eps", Num, "added to the root of the second moment"),
    acts("weight_decay", Num, "pull of every parameter towards zero"),
    acts("bias_correction", Bool, "corrects moments that start at zero"),
    acts("adam_w_mode", Bool, "decays weights apart from the gradient"),
    acts("torch_adam", Bool, "takes PyTorch's Adam and its defaults"),
    acts("amsgrad", Bool, "keeps the largest second moment"),
    acts("momentum", Num, "share of the last update kept in the next"),
    acts("dampening", Num, "share of the gradient kept out of the momentum"),
    acts("nesterov", Bool, "looks ahead along the momentum"),
    acts("max_grad_norm", Num, "the old place of gradient_clipping"),
    acts("maximize", Bool, "climbs instead of descending"),
    idle("fp32_optimizer_states", Bool, "true", "keeps moments in fp32"),
    idle("set_grad_none", Bool, "true", "frees gradients after a step"),
    idle("foreach", Any, "null", "how PyTorch batches its kernels"),
    idle("fused", Any, "null", "how PyTorch fuses its kernels"),
    idle("capturable", Bool, "false", "lets CUDA graphs record the step"),
};

constexpr KeySpec schedulerKeys[] = {
    acts("type", Str, "the curve of the learning rate"),
    acts("params", Obj, "the curve's parameters"),
};

constexpr KeySpec schedulerParamsKeys[] = {
    acts("warmup_min_lr", Num, "learning rate at the start of warm-up"),
    acts("warmup_max_lr", Num, "learning rate at the end of warm-up"),
    acts("warmup_num_steps", Int, "steps of warm-up"),
    acts("warmup_type", Str, "how warm-up climbs: log or linear"),
    acts("total_num_steps", Int, "steps of the whole schedule"),
    acts("warmup_min_ratio", Num, "share of the learning rate at the start"),
    acts("cos_min_ratio", Num, "share of the learning rate at the end"),
    acts("last_batch_iteration", Int, "where the schedule begins"),
};

//===----------------------------------------------------------------------===//
// ZeRO
//===----------------------------------------------------------------------===//

constexpr KeySpec zeroKeys[] = {
    acts("stage", Int,
         "0 shards nothing, 1 optimizer state, 2 gradients too, 3 parameters "
         "too"),
    acts("reduce_bucket_size", Int, "elements of gradients reduced together"),
    acts("allgather_bucket_size", Int,
         "elements of parameters gathered together at stages 1 and 2"),
    acts("stage3_prefetch_bucket_size", Int,
         "elements of parameters gathered ahead of their use"),
    acts("prefetch_bucket_size", Int, "same as stage3_prefetch_bucket_size"),
    acts("stage3_param_persistence_threshold", Int,
         "parameters with fewer elements are never sharded"),
    acts("param_persistence_threshold", Int,
         "same as stage3_param_persistence_threshold"),
    acts("overlap_comm", Bool, "reduces gradients during the backward"),
    acts("offload_optimizer", Obj, "where optimizer state lives"),
    acts("offload_param", Obj, "where sharded parameters live"),
    acts("cpu_offload", Bool, "the old form of offload_optimizer"),
    acts("cpu_offload_use_pin_memory", Bool,
         "the old form of offload_optimizer.pin_memory"),
    acts("cpu_offload_param", Bool, "the old form of offload_param"),
    acts("reduce_scatter", Bool, "reduces gradients straight into shards"),
    idle("contiguous_gradients", Bool, "true", "keeps gradients contiguous"),
    idle("use_multi_rank_bucket_allreduce", Bool, "true",
         "reduces for several ranks at once"),
    idle("allgather_partitions", Bool, "true",
         "gathers parameters instead of broadcasting them"),
    idle("load_from_fp32_weights", Bool, "true",
         "restores master weights from a checkpoint's fp32 copy"),
    idle("elastic_checkpoint", Bool, "false",
         "checkpoints for any number of ranks; here all are"),
    idle("sub_group_size", Int, "1000000000",
         "elements that the optimizer updates together"),
    idle("stage3_model_persistence_threshold", Int, "9223372036854775807",
         "elements that may stay whole altogether"),
    idle("model_persistence_threshold", Int, "9223372036854775807",
         "same as stage3_model_persistence_threshold"),
    idle("stage3_max_live_parameters", Int, "1000000000",
         "elements of gathered parameters alive at once; the schedule "
         "decides here"),
    idle("max_live_parameters", Int, "1000000000",
         "same as stage3_max_live_parameters"),
    idle("stage3_max_reuse_distance", Int, "1000000000",
         "elements until the next use for which a parameter stays gathered; "
         "here --keep-gathered says which do"),
    idle("max_reuse_distance", Int, "1000000000",
         "same as stage3_max_reuse_distance"),
    idle("stage3_gather_16bit_weights_on_model_save", Bool, "*",
         "saves whole 16-bit weights; an export always holds them"),
    idle("gather_16bit_weights_on_model_save", Bool, "*",
         "same as stage3_gather_16bit_weights_on_model_save"),
    idle("stage3_gather_fp16_weights_on_model_save", Bool, "*",
         "old name of stage3_gather_16bit_weights_on_model_save"),
    idle("stage3_module_granularity_threshold", Int, "0",
         "treats modules smaller than this as one"),
    idle("stage3_use_all_reduce_for_fetch_params", Bool, "false",
         "gathers parameters by all-reduce"),
    idle("stage3_allgather_sequential", Bool, "false",
         "gathers parameters one by one"),
    idle("ignore_unused_parameters", Bool, "true",
         "accepts parameters without a gradient"),
    idle("round_robin_gradients", Bool, "false",
         "spreads gradient copies over ranks"),
    idle("legacy_stage1", Bool, "false", "an old form of stage 1"),
    idle("zero_hpz_partition_size", Int, "1",
         "keeps a second shard within a host"),
    idle("zero_quantized_weights", Bool, "false", "gathers quantized weights"),
    idle("zero_quantized_nontrainable_weights", Bool, "false",
         "gathers quantized frozen weights"),
    idle("zero_quantized_gradients", Bool, "false",
         "reduces quantized gradients"),
    idle("zeropp_loco_param", Obj, "null",
         "error feedback for quantized gradients"),
    idle("mics_shard_size", Int, "-1", "shards within groups of this size"),
    idle("mics_hierarchical_params_gather", Bool, "false",
         "gathers within a host first"),
    idle("memory_efficient_linear", Bool, "true",
         "keeps no copy of a linear layer's weight"),
    idle("pipeline_loading_checkpoint", Bool, "false",
         "loads a checkpoint while the model is built"),
    idle("override_module_apply", Bool, "true",
         "gathers parameters for Module.apply"),
    idle("log_trace_cache_warnings", Bool, "false",
         "warns when the order of parameters changes"),
    idle("enable_sanity_checks", Bool, "false", "checks ranks for agreement"),
    idle("save_muon_momentum_buffer_in_memory", Bool, "false",
         "keeps Muon's momentum on the device"),
    idle("leaf_module", Obj, "{}", "modules gathered as a whole"),
    idle("zenflow", Obj, "null",
         "delays most updates; here every update is exact"),
};

constexpr KeySpec offloadOptimizerKeys[] = {
    acts("device", Str, "where optimizer state lives and is updated"),
    acts("pin_memory", Bool, "keeps host memory pinned for fast copies"),
    acts("ratio", Num, "share of the optimizer state that is offloaded"),
    acts("nvme_path", Str, "folder for NVMe offload"),
    idle("buffer_count", Int, "4",
         "buffers for NVMe offload; here those of two parts of a bucket"),
    idle("pipeline_read", Bool, "false",
         "reads NVMe ahead, which is done here"),
    idle("pipeline_write", Bool, "false",
         "writes NVMe behind, which is done here"),
    idle("pipeline", Bool, "false",
         "reads ahead and writes behind, which is done here"),
    idle("fast_init", Bool, "false", "starts NVMe offload quickly"),
    idle("super_offload", Bool, "false", "SuperOffload for GH200"),
    idle("cpuadam_cores_perc", Num, "0.8", "cores for SuperOffload's Adam"),
};

constexpr KeySpec offloadParamKeys[] = {
    acts("device", Str, "where sharded parameters live"),
    acts("pin_memory", Bool, "keeps host memory pinned for fast copies"),
    acts("nvme_path", Str, "folder for NVMe offload"),
    idle("buffer_count", Int, "5", "buffers for NVMe offload"),
    idle("buffer_size", Int, "100000000", "elements of one such buffer"),
    idle("max_in_cpu", Int, "1000000000",
         "elements kept in host memory beside NVMe"),
};

constexpr KeySpec zenflowKeys[] = {
    idle("topk_ratio", Num, "", "share of gradients applied at once"),
    idle("select_strategy", Str, "", "how important columns are chosen"),
    idle("select_interval", Any, "", "how often they are chosen"),
    idle("update_interval", Any, "", "how often the others are updated"),
    idle("overlap_step", Bool, "", "updates during the next step"),
    idle("offload", Bool, "", "keeps the chosen state in host memory"),
    idle("auto_ratio", Num, "", "how the interval adapts"),
    idle("full_warm_up_rounds", Int, "", "exact steps at the start"),
    idle("pt_reserved_cores_perc", Num, "", "cores left to PyTorch"),
    idle("steps_per_epoch", Int, "", "steps of an epoch"),
};

//===----------------------------------------------------------------------===//
// Monitors, profiling, the rest
//===----------------------------------------------------------------------===//

constexpr KeySpec monitorKeys[] = {
    idle("enabled", Bool, "", "switches the monitor on"),
    idle("output_path", Str, "", "where it writes"),
    idle("job_name", Str, "", "name of the run"),
};

constexpr KeySpec wandbKeys[] = {
    idle("enabled", Bool, "", "switches the monitor on"),
    idle("group", Str, "", "group of the run"),
    idle("team", Str, "", "team of the run"),
    idle("project", Str, "", "project of the run"),
};

constexpr KeySpec checkpointingKeys[] = {
    idle("partition_activations", Bool, "", "shards kept activations"),
    idle("number_checkpoints", Any, "", "how many layers are marked"),
    idle("contiguous_memory_optimization", Bool, "", "packs activations"),
    idle("cpu_checkpointing", Bool, "", "moves activations to the host"),
    idle("synchronize_checkpoint_boundary", Bool, "", "synchronises devices"),
    idle("profile", Bool, "", "times recomputation"),
};

constexpr KeySpec checkpointKeys[] = {
    acts("tag_validation", Str, "what happens when ranks name tags apart"),
    idle("load_universal", Bool, "*", "reads a universal checkpoint"),
    idle("use_node_local_storage", Bool, "false", "writes on every host"),
    idle("parallel_write", Obj, "{}", "writes from several stages"),
    idle("writer", Any, "null", "how files are written"),
};

constexpr KeySpec aioKeys[] = {
    acts("block_size", Int, "bytes of one request"),
    acts("queue_depth", Int, "requests in flight"),
    idle("thread_count", Int, "", "old name of intra_op_parallelism"),
    idle("intra_op_parallelism", Int, "", "threads of one transfer"),
    idle("single_submit", Bool, "", "submits requests one by one"),
    idle("overlap_events", Bool, "", "submits while waiting"),
    idle("use_gds", Bool, "", "reads straight into the GPU"),
};

constexpr KeySpec flopsProfilerKeys[] = {
    idle("enabled", Bool, "", "switches the profiler on"),
    idle("recompute_fwd_factor", Num, "", "share of recomputed forwards"),
    idle("profile_step", Int, "", "the step that is profiled"),
    idle("module_depth", Int, "", "how deep modules are listed"),
    idle("top_modules", Int, "", "how many modules are listed"),
    idle("detailed", Bool, "", "prints every module"),
    idle("output_file", Any, "", "where the profile goes"),
};

constexpr SectionSpec sections[] = {
    {"", false, topKeys},
    {"fp16", true, fp16Keys},
    {"bf16", true, bf16Keys},
    {"data_types", true, dataTypesKeys},
    {"optimizer", true, optimizerKeys},
    {"optimizer.params", true, optimizerParamsKeys},
    {"scheduler", true, schedulerKeys},
    {"scheduler.params", true, schedulerParamsKeys},
    {"zero_optimization", true, zeroKeys},
    {"zero_optimization.offload_optimizer", true, offloadOptimizerKeys},
    {"zero_optimization.offload_param", true, offloadParamKeys},
    {"zero_optimization.zenflow", true, zenflowKeys},
    {"tensorboard", true, monitorKeys},
    {"csv_monitor", true, monitorKeys},
    {"wandb", true, wandbKeys},
    {"activation_checkpointing", false, checkpointingKeys},
    {"checkpoint", false, checkpointKeys},
    {"aio", false, aioKeys},
    {"flops_profiler", false, flopsProfilerKeys},
};

/// Letters to insert, delete or replace to make `a` into `b`.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

/// Longer names are no misspelling; measuring them would only take time.
constexpr size_t longestName = 100;

} // namespace

std::string_view
ciuic::config::nearestName(std::string_view name,
                           std::span<const std::string_view> candidates) {
  std::string_view best;
  if (name.size() > longestName)
    return best;
  size_t limit = std::max<size_t>(2, name.size() / 2), smallest = limit + 1;
  for (std::string_view candidate : candidates) {
    size_t distance = editDistance(name, candidate);
    if (distance < smallest) {
      smallest = distance;
      best = candidate;
    }
  }
  return best;
}

const KeySpec *SectionSpec::find(std::string_view name) const {
  for (const KeySpec &key : keys)
    if (key.name == name)
      return &key;
  return nullptr;
}

std::string_view SectionSpec::nearest(std::string_view name) const {
  std::vector<std::string_view> names;
  for (const KeySpec &key : keys)
    names.push_back(key.name);
  return nearestName(name, names);
}

const SectionSpec *ciuic::config::findSection(std::string_view path) {
  for (const SectionSpec &section : sections)
    if (section.path == path)
      return &section;
  return nullptr;
}

std::string_view ciuic::config::whatItDoes(std::string_view path) {
  size_t dot = path.rfind('.');
  std::string_view section = dot == path.npos ? "" : path.substr(0, dot);
  std::string_view name = dot == path.npos ? path : path.substr(dot + 1);
  const SectionSpec *spec = findSection(section);
  const KeySpec *key = spec ? spec->find(name) : nullptr;
  return key ? key->what : "";
}
