# JupyterLab with jmars and its notebooks, from the files of a commit and nothing else:
#   git archive HEAD | docker build --tag jmars -
#   docker run --rm --publish 127.0.0.1:8888:8888 jmars
FROM python:3.13-slim-trixie
RUN useradd --create-home --uid 1000 jmars
WORKDIR /opt/jmars
COPY --chown=1000 . .
RUN .ci/environment notebooks gcc:cc libc6-dev:cc
USER 1000
EXPOSE 8888
CMD [".venv/bin/jupyter", "lab", "--ip=0.0.0.0", "--no-browser", "--notebook-dir=notebooks"]
