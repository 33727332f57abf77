#pragma once

#include <nlohmann/json.hpp>

namespace weir::protocol {

/// A small catalog in the form that `weir-worker catalog` prints, so that tests of the layers below the trainers need
/// no LibTorch.
inline nlohmann::json test_catalog() {
  return nlohmann::json::parse(R"({
    "models": [{"name": "lenet", "summary": "", "parameters": 61706,
                "params": {"type": "object", "properties": {}, "additionalProperties": false}}],
    "datasets": [{"name": "fashion-mnist", "summary": "",
                  "params": {"type": "object", "properties": {}, "additionalProperties": false}},
                 {"name": "mnist", "summary": "",
                  "params": {"type": "object", "properties": {}, "additionalProperties": false}},
                 {"name": "cifar10", "summary": "", "needs_path": true,
                  "params": {"type": "object", "properties": {}, "additionalProperties": false}}],
    "compressors": [
      {"name": "none", "summary": "", "default_memory": "none", "memories": ["none"],
       "traits": {"wire_bits": {"summed": 32, "gathered": 0}},
       "memory_misfits": {"residual": "nothing is left", "dgc": "it sends everything"},
       "params": {"type": "object", "properties": {}, "additionalProperties": false}},
      {"name": "topk", "summary": "", "default_memory": "residual", "memories": ["none", "residual"],
       "traits": {"goes_dense": true, "wire_bits": {"summed": 0, "gathered": 0.5}},
       "memory_misfits": {"dgc": "no momentum"},
       "params": {"type": "object", "additionalProperties": false, "properties": {
         "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.01}}}},
      {"name": "dgc", "summary": "", "default_memory": "dgc", "memories": ["dgc"],
       "memory_misfits": {"none": "it needs one", "residual": "it needs momentum"},
       "params": {"type": "object", "additionalProperties": false, "properties": {
         "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 0.001},
         "warmup_epochs": {"type": "number", "minimum": 0, "default": 1}}}},
      {"name": "powersgd", "summary": "", "traits": {}, "owners_misfit": "it keeps what was sent before",
       "default_memory": "none", "memories": ["none"], "memory_misfits": {},
       "params": {"type": "object", "additionalProperties": false, "properties": {
         "start_step": {"type": "integer", "minimum": 0, "default": 10}}}}],
    "memories": [{"name": "none", "summary": ""}, {"name": "residual", "summary": ""}, {"name": "dgc", "summary": ""}],
    "modes": [{"name": "sync", "summary": "", "topologies": ["ring", "butterfly", "servers", "auto"],
               "params": {"type": "object", "additionalProperties": false, "properties": {
                 "accumulate": {"type": "integer", "minimum": 1, "maximum": 65536, "default": 1}}}},
              {"name": "served", "summary": "", "roles": {"server": {"count": "servers"}},
               "params": {"type": "object", "additionalProperties": false, "properties": {
                 "servers": {"type": "integer", "minimum": 0, "maximum": 64, "default": 1}}}},
              {"name": "watched", "summary": "", "roles": {"server": {"count": 1}, "state_server": {"count": 1}},
               "params": {"type": "object", "additionalProperties": false, "properties": {}}},
              {"name": "apart", "summary": "", "exchanges": "differences", "topologies": ["ring"],
               "params": {"type": "object", "additionalProperties": false, "properties": {
                 "period": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10}}}},
              {"name": "mixing", "summary": "", "topologies": ["ring"],
               "params": {"type": "object", "additionalProperties": false, "properties": {
                 "graph": {"type": "string", "enum": ["ring", "complete"], "default": "ring"}}}}],
    "topologies": [{"name": "ring", "summary": "", "workers": "any"},
                   {"name": "butterfly", "summary": "", "workers": "power_of_two"},
                   {"name": "star", "summary": "", "workers": "any"},
                   {"name": "servers", "summary": "", "workers": "any", "gathers": "owners",
                    "params": {"type": "object", "additionalProperties": false, "properties": {
                      "servers": {"type": ["integer", "null"], "minimum": 1, "default": null}}}},
                   {"name": "auto", "summary": "", "workers": "any", "gathers": "all", "automatic": true}],
    "optimizers": [{"name": "sgd", "summary": "",
       "params": {"type": "object", "additionalProperties": false, "properties": {
         "lr": {"type": "number", "exclusiveMinimum": 0, "default": 0.05},
         "momentum": {"type": "number", "minimum": 0, "exclusiveMaximum": 1, "default": 0.9}}}}],
    "lr_schedules": [{"name": "constant", "summary": ""}]
  })");
}

}  // namespace weir::protocol
